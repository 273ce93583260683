//! The error rates of `fsprobe compare` on pairs of simulated machines.
//!
//! `FSPROBE_SEEDS=200` takes as many pairs of each kind as the published error rates are for
//! (docs/methodology.md); a plain test run takes a few.

use fsprobe::commands::sweep::simulated;
use fsprobe::judge::compare::compare;
use fsprobe::report::{Axis, Change};
use fsprobe::simulate::Model;

fn seeds() -> u64 {
    std::env::var("FSPROBE_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2)
}

fn model(name: &str) -> Model {
    Model::named(name).expect(name)
}

/// Takes pairs of whole default sweeps: quiet, noisy, and one of each. None may be told wrong, and one in 200 not at
/// all.
fn told(kind: &str, before: &Model, after: &Model, expected: Change) {
    for noisy in [[false, false], [true, true], [true, false], [false, true]] {
        let count = if noisy[0] == noisy[1] { seeds() } else { seeds() / 2 };
        let (mut unsure, mut wrong) = (0, vec![]);
        for seed in 0..count {
            let run = |model: &Model, seed, noisy| simulated(&Model { noisy, ..model.clone() }, seed);
            let [earlier, later] = [run(before, 2 * seed, noisy[0]), run(after, 2 * seed + 1, noisy[1])];
            let found = compare(&[earlier], &[later]).expect("comparable");
            match found.change {
                change if change == expected => {}
                Change::CannotTell => unsure += 1,
                _ => wrong.push(format!("{kind}, seed {seed}: {found:#?}")),
            }
        }
        eprintln!("{kind}, noisy {noisy:?}: {unsure} of {count} not told, {} wrong", wrong.len());
        assert!(wrong.is_empty(), "{}", wrong[0]);
        assert!(unsure <= count.div_ceil(200), "{kind}, noisy {noisy:?}: {unsure} of {count} not told");
    }
}

/// The published band of Zen 3, to this distance.
fn zen3(to: u16) -> Model {
    Model { name: "zen3".into(), ..Model::with_band(Axis::Distance, 0x991, to, 2.8, false) }
}

#[test]
fn a_full_fix_is_told() {
    told("full fix", &model("zen4"), &model("zen4-mended"), Change::Fixed);
    let mended = Model { name: "zen3".into(), ..model("clean") };
    told("full fix of zen3", &zen3(0x00f), &mended, Change::Fixed);
}

#[test]
fn half_a_fix_is_told() {
    told("half the band gone", &model("zen4"), &model("zen4-half"), Change::PartlyFixed);
    told("half of zen3's band gone", &zen3(0x00f), &zen3(0xcd0), Change::PartlyFixed);
}

#[test]
fn no_fix_is_told() {
    told("no fix", &model("zen4"), &model("zen4"), Change::NotFixed);
    told("no fix of zen3", &zen3(0x00f), &zen3(0x00f), Change::NotFixed);
    told("clean", &model("clean"), &model("clean"), Change::Unaffected);
}

#[test]
fn a_regression_is_told() {
    told("regression", &model("zen4-mended"), &model("zen4"), Change::Regressed);
    told("the other half slow too", &model("zen4-half"), &model("zen4"), Change::Regressed);
}
