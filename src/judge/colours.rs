//! Page colours: partitions a pool of pages by mutual slowness, and proves or refutes the partition.
//!
//! The machine is asked copy by copy, through a function that answers with nanoseconds; what is asked next
//! depends on the answers alone, so a simulated machine can stand in. A pool's pages come in random order
//! (the caller's), which lets neighbours stand for random pairs.

mod masks;
mod oracle;
mod partition;
mod proof;

use super::stats::median_of;
use crate::report::{Colours, Fact, Level, Pair, PathName, Prediction, Profile, Proof};
use oracle::{Oracle, two_levels};
use partition::Partition;

/// Bytes of one copy: in L1 on every CPU, within one page up to the last distance of the profile.
const LEN: usize = 2048;

/// Mild distances at which colours are looked for, in this order; 0x030 is the clearest on Zen 4.
const DISTANCES: [u16; 3] = [0x030, 0x068, 0x0e8];

/// Pages in whose pairs two levels are looked for, each with as many others: one pair in 512 suffices.
const PILOT: usize = 2048;
const STRIDES: [usize; 4] = [1, 3, 5, 7];

/// Passes over pairs whose times are wanted, not only their level.
const PILOT_PASSES: usize = 5;

/// Time over the usual time from which a pair counts as slow where there are no two levels.
const SLOW: f64 = 1.5;

/// Pairs of pages of each kind in the profile.
const PROFILE_PAIRS: usize = 12;

/// Answers how many nanoseconds one copy takes; none once the run has been stopped.
pub type Ask<'a> = dyn FnMut(Pair) -> Option<f64> + 'a;

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The colours.
    pub colours: Colours,
    /// Why there are no masks.
    pub no_masks: Option<String>,
}

/// Finds the colours of up to `pool` pages, 16 at least; none once the run was stopped. `frames` are the pages'
/// frame numbers, with whether they are a guest's.
pub fn colours(pool: usize, frames: Fact<(Vec<u64>, bool)>, ask: &mut Ask<'_>) -> Option<Finding> {
    let pilot = pool.min(PILOT);
    let pairs: Vec<(usize, usize)> = STRIDES
        .into_iter()
        .flat_map(|stride| (0..pilot).map(move |page| (page, (page + stride) % pilot)))
        .collect();
    for distance in DISTANCES {
        let mut oracle = Oracle::new(ask, distance, LEN);
        let times = oracle.times(&pairs, PILOT_PASSES)?;
        if let Some(levels) = two_levels(&times)
            && oracle.believes(&levels, &pairs, &times)?
        {
            return several(oracle, pool, levels.ratio, frames);
        }
    }
    single(Oracle::new(ask, DISTANCES[0], LEN), pilot, &pairs)
}

/// No two levels at any distance: one colour, unless some pairs stand out whenever they are looked at.
fn single(mut oracle: Oracle<'_, '_>, pool: usize, pairs: &[(usize, usize)]) -> Option<Finding> {
    let mut odd: Vec<(usize, usize)> = pairs.to_vec();
    let usual = median_of(oracle.times(pairs, 1)?).unwrap_or(f64::INFINITY);
    for _ in 0..2 {
        let times = oracle.times(&odd, PILOT_PASSES)?;
        odd = odd
            .into_iter()
            .zip(times)
            .filter(|(_, time)| *time > SLOW * usual)
            .map(|(pair, _)| pair)
            .collect();
    }
    let mut pages: Vec<usize> = odd.iter().flat_map(|(a, b)| [*a, *b]).collect();
    pages.sort_unstable();
    pages.dedup();
    let same: Vec<(usize, usize)> = pairs.iter().copied().take(PROFILE_PAIRS).collect();
    let colours = Colours {
        contradicting: pages.len(),
        profile: profile(&mut oracle, &same, &[])?,
        ..unproven(pool, vec![pool], oracle.distance())
    };
    Some(Finding { colours, no_masks: Some("there is a single colour".into()) })
}

/// Two levels: classes of pages.
fn several(
    mut oracle: Oracle<'_, '_>,
    pool: usize,
    ratio: f64,
    frames: Fact<(Vec<u64>, bool)>,
) -> Option<Finding> {
    let partition = Partition::of(&mut oracle, pool)?;
    let pool = partition.classes().len();
    let (proof, contradicting) = proof::prove(&mut oracle, &partition)?;
    let [same, other] = partition.sample(PROFILE_PAIRS);
    let mut colours = Colours {
        contradicting: contradicting.iter().filter(|wrong| **wrong).count(),
        profile: profile(&mut oracle, &same, &other)?,
        ratio: Some(ratio),
        proof,
        ..unproven(pool, partition.sizes(), oracle.distance())
    };
    let trusted: Vec<bool> = contradicting.iter().map(|wrong| !wrong).collect();
    let solved = match frames {
        Fact::Unknown(reason) => Fact::Unknown(reason),
        Fact::Known((frames, guest_frames)) => {
            masks::solve(partition.classes(), &trusted, &frames).map(|found| {
                (found.masks, Prediction { held_out: found.held_out, right: found.right, guest_frames })
            })
        }
    };
    let no_masks = match solved {
        Fact::Unknown(reason) => Some(reason),
        Fact::Known((found, prediction)) => {
            colours.masks = Some(found.iter().map(|mask| format!("{mask:#x}")).collect());
            colours.prediction = Some(prediction);
            None
        }
    };
    Some(Finding { colours, no_masks })
}

fn unproven(pool: usize, sizes: Vec<usize>, distance: u16) -> Colours {
    Colours {
        pool,
        sizes,
        contradicting: 0,
        profile: Profile::default(),
        masks: None,
        prediction: None,
        path: PathName::RepMovsb,
        distance,
        len: LEN as u64,
        ratio: None,
        proof: Proof::default(),
    }
}

/// Times over the distances 0x000..=0x300: each up to 0x048, then every eighth.
fn profile(
    oracle: &mut Oracle<'_, '_>,
    same: &[(usize, usize)],
    other: &[(usize, usize)],
) -> Option<Profile> {
    let pairs: Vec<(usize, usize)> = same.iter().chain(other).copied().collect();
    let mut profile = Profile::default();
    for distance in (0x000..0x048).chain((0x048..=0x300).step_by(8)) {
        let times = oracle.at(distance).times(&pairs, PILOT_PASSES)?;
        let (of_same, of_other) = times.split_at(same.len());
        for (levels, times) in [(&mut profile.same, of_same), (&mut profile.other, of_other)] {
            let ns = median_of(times.iter().copied());
            levels.extend(ns.map(|ns| Level { distance, ns: (ns * 10.0).round() / 10.0 }));
        }
    }
    Some(profile)
}

/// A random number of a page: SplitMix64's finaliser.
#[cfg(test)]
fn mixed(page: usize) -> usize {
    let z = (page as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose pages have the colours given: 30 ns, 210 between pages of one colour.
    fn machine(colour: impl Fn(usize) -> usize) -> impl FnMut(Pair) -> Option<f64> {
        move |pair| {
            assert!(pair.dst != pair.src && usize::from(pair.distance) + pair.len <= 4096);
            let mild = (0x021..0x300).contains(&pair.distance) && !pair.distance.is_multiple_of(0x20);
            Some(if mild && colour(pair.dst) == colour(pair.src) { 210.0 } else { 30.0 })
        }
    }

    fn unknown() -> Fact<(Vec<u64>, bool)> {
        Fact::because("hidden")
    }

    #[test]
    fn quiet_machines_are_told_exactly() {
        for (count, pool) in [(2, 512), (4, 512), (16, 512), (256, 3072)] {
            let finding = colours(4096, unknown(), &mut machine(|page| mixed(page) % count)).unwrap();
            let found = finding.colours;
            let mut sizes = vec![0; count];
            (0..pool).for_each(|page| sizes[mixed(page) % count] += 1);
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            assert_eq!((found.sizes.clone(), found.contradicting), (sizes, 0));
            assert_eq!((found.pool, found.ratio, found.distance), (pool, Some(7.0), 0x030));
            assert_eq!(finding.no_masks.as_deref(), Some("hidden"));
            let at = |levels: &[Level], distance| levels.iter().find(|l| l.distance == distance).unwrap().ns;
            assert_eq!([at(&found.profile.same, 0x030), at(&found.profile.other, 0x030)], [210.0, 30.0]);
            assert_eq!([at(&found.profile.same, 0x020), at(&found.profile.same, 0x300)], [30.0, 30.0]);
        }
    }

    #[test]
    fn no_colours_are_invented() {
        for level in [30.0, 210.0] {
            let found = colours(4096, unknown(), &mut |_| Some(level)).unwrap().colours;
            assert_eq!((found.sizes, found.contradicting, found.ratio), (vec![2048], 0, None));
            assert!(found.profile.other.is_empty() && found.profile.same.len() > 150);
        }
        // one page that is slow with every other: no class, and told as what it is
        let odd = |pair: Pair| Some(if pair.dst == 7 || pair.src == 7 { 90.0 } else { 30.0 });
        let found = colours(4096, unknown(), &mut { odd }).unwrap().colours;
        assert_eq!((found.sizes.clone(), found.contradicting), (vec![2048], 9));
        assert!(found.holds());
    }

    #[test]
    fn slowness_that_is_no_equivalence_contradicts() {
        // slow where the pages' numbers are near each other on a circle: neither transitive nor disjoint
        let place = |page: usize| mixed(page) % 512;
        let near = |pair: Pair| {
            let apart = place(pair.dst).abs_diff(place(pair.src));
            Some(if apart.min(512 - apart) < 30 && pair.distance == 0x030 { 210.0 } else { 30.0 })
        };
        let found = colours(512, unknown(), &mut { near }).unwrap().colours;
        assert!(!found.holds(), "{found:?}");
        assert!(found.proof.intransitive > 5 && found.proof.shared > 5, "{:?}", found.proof);
    }

    #[test]
    fn a_stopped_run_ends() {
        let mut left = 90_000;
        let mut ask = machine(|page| mixed(page) % 16);
        let stopping = &mut |pair| {
            left -= 1;
            if left < 0 { None } else { ask(pair) }
        };
        assert_eq!(colours(512, unknown(), stopping), None);
        assert_eq!(left, -1, "nothing is asked after the stop");
    }
}
