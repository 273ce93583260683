//! Copies that a program makes between its calls: samples of user space show them beside the calls, of children too that
//! nobody waits for.

use super::programs::{built, watched};
use fsprobe::report::OwnCopies;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/own.c");

#[test]
fn copies_between_calls_are_met_by_samples() {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    for (name, link) in [("own", "-O1"), ("own-static", "-static")] {
        let program = match built(name, &cc, &["-O1", link, SOURCE]) {
            Some(Ok(program)) => program,
            Some(Err(error)) => {
                assert_eq!(link, "-static", "{error}");
                continue;
            }
            None => return,
        };
        for words in [vec![program.to_str().unwrap()], vec![program.to_str().unwrap(), "deaf"]] {
            let Some(done) = watched(&words) else { return };
            let Some(OwnCopies { user_ns, samples }) = &done.watched.own else {
                // where nobody may sample, that they are not seen is told
                assert!(done.watched.unseen.iter().any(|unseen| unseen.what.contains("copies inside")));
                continue;
            };
            assert!(done.watched.cpu_ns >= Some(190_000_000), "{:?}", done.watched.cpu_ns);
            assert!(*user_ns > 100_000_000, "{user_ns}");
            let met = |at_8: bool| -> u64 {
                let inside = samples.inside.iter().filter(|inside| (inside.distance == 8) == at_8);
                inside.map(|inside| inside.samples).sum()
            };
            assert!(met(true) * 10 > samples.taken * 8 && met(true) > 20 * met(false), "{samples:?}");
        }
    }
}
