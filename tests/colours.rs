//! Page colours: simulated machines are told right, and the command reports what this machine shows.

mod common;

use common::{Place, assert_fails, report, stdout, text};
use fsprobe::judge::colours::colours;
use fsprobe::report::{Colours, Fact, State};
use fsprobe::simulate::Model;
use fsprobe::sweep::colours::{POOL, PairTimer};

fn found(model: &str, count: u64, seed: u64) -> Colours {
    let mut pages = Model::named(model).expect(model).pages_of(count, seed);
    let hidden = Fact::because("simulated");
    colours(POOL, hidden, &mut |pair| Some(pages.time(pair))).expect("never stopped").colours
}

#[test]
fn simulated_colours_are_counted_whatever_the_noise() {
    for model in ["zen4", "zen4+noisy"] {
        for (count, seeds) in [(4, 6), (16, 6), (256, 1)] {
            for seed in 0..seeds {
                let found = found(model, count, seed);
                let what =
                    format!("{model}, {count} colours, seed {seed}: {:?} {:?}", found.sizes, found.proof);
                assert_eq!(found.sizes.len() as u64, count, "{what}");
                assert_eq!(found.sizes.iter().sum::<usize>(), found.pool, "{what}");
                assert!(found.holds(), "{what}");
                let slower = found.ratio.expect("two levels");
                assert!((5.0..9.0).contains(&slower), "{what}: {slower}");
            }
        }
    }
}

#[test]
fn machines_without_colours_have_one() {
    for model in ["clean", "intel", "zen3", "zen5"] {
        for seed in 0..3 {
            for model in [model.to_owned(), format!("{model}+noisy")] {
                let found = found(&model, 0, seed);
                assert_eq!(found.sizes, [found.pool], "{model} {seed}");
                assert!(found.holds() && found.ratio.is_none(), "{model} {seed}");
            }
        }
    }
}

#[test]
fn the_command_tells_a_models_colours() {
    let place = Place::new();
    let file = place.path("r.json");
    let options = ["sweep", "--paths", "rep-movsb", "--colours", "--simulate", "zen4", "--seed", "1"];
    let output = place.run(&[&options[..], &["--output", text(&file)]].concat());
    assert!(output.status.success());
    let shown = stdout(&output);
    assert!(shown.contains("PAGE COLOURS: 16 (simulated: zen4)") && shown.contains("frame bits"), "{shown}");
    assert!(
        shown.lines().any(|l| l.starts_with("0x030") && l.contains("210 ns") && l.contains("30")),
        "{shown}"
    );
    let report = report(&file);
    let colours = report.colours.as_ref().expect("colours");
    assert_eq!((colours.sizes.len(), colours.pool), (16, 512));
    assert!(report.run.options.colours && report.run.complete);
    assert_eq!(report.verdict.state, State::Inconclusive, "no offset was measured");
    assert!(report.host.unknown["colours.masks"].contains("no frames"));
}

#[test]
fn this_machine_has_a_partition_or_says_that_it_is_none() {
    let place = Place::new();
    let file = place.path("r.json");
    let output = place.run(&["sweep", "--paths", "rep-movsb", "--colours", "--output", text(&file)]);
    assert!(output.status.success());
    let report = report(&file);
    let colours = report.colours.expect("colours");
    assert_eq!(colours.sizes.iter().sum::<usize>(), colours.pool);
    assert!(colours.sizes.is_sorted_by(|a, b| a >= b) && colours.profile.same.len() > 100);
    assert_eq!(colours.ratio.is_none(), colours.sizes.len() == 1);
    assert_eq!(colours.masks.is_none(), report.host.unknown.contains_key("colours.masks"));
    let shown = stdout(&output);
    let word = match colours.sizes.len() {
        1 => "none".to_owned(),
        count if colours.holds() => count.to_string(),
        _ => "unclear".to_owned(),
    };
    assert!(shown.contains(&format!("PAGE COLOURS: {word}")), "{shown}");
}

#[test]
fn what_does_not_go_with_colours_is_refused() {
    let place = Place::new();
    assert_fails(&place.run(&["sweep", "--colours"]), &["--paths rep-movsb"]);
    let with =
        |more: &[&str]| place.run(&[&["sweep", "--paths", "rep-movsb", "--colours"][..], more].concat());
    assert_fails(&with(&["--len", "64K"]), &["--len", "cannot be used with"]);
    assert_fails(&with(&["--simulate", "zen9", "--no-output"]), &["zen9"]);
}
