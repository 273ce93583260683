//! Which XOR masks of frame bits decide the colour: linear algebra over GF(2).
//!
//! A mask m is constant on a class if `parity(m & (a ^ b))` is 0 for all its pages a and b: m is orthogonal
//! to the differences within classes. Masks that are orthogonal to all differences decide nothing.

use crate::report::Fact;
use std::collections::BTreeMap;

/// One page in so many is held out.
const HELD_OUT: usize = 3;

/// Masks are also sought on so many parts of the pages, should a wrongly classified page spoil the whole.
const PARTS: usize = 6;

/// Held-out pages that must be predicted, in percent.
const LEAST_RIGHT: usize = 90;

/// All combinations of this many masks are looked through for the simplest ones.
const MOST_COMBINED: usize = 12;

/// Masks and how well they predict.
pub struct Solution {
    pub masks: Vec<u64>,
    pub held_out: usize,
    pub right: usize,
}

/// A page's frame and class.
type Page = (u64, usize);

/// Finds masks on some of the trusted pages and tests them on the others; unknown where none decide.
pub fn solve(classes: &[usize], trusted: &[bool], frames: &[u64]) -> Fact<Solution> {
    let pages: Vec<Page> = classes
        .iter()
        .zip(frames)
        .zip(trusted)
        .filter(|(_, trusted)| **trusted)
        .map(|((class, frame), _)| (*frame, *class))
        .collect();
    let with = |held: bool| {
        let chosen =
            pages.iter().enumerate().filter(move |(index, _)| index.is_multiple_of(HELD_OUT) == held);
        chosen.map(|(_, page)| *page).collect::<Vec<Page>>()
    };
    let (held_out, known) = (with(true), with(false));
    let part = |part: usize| known.iter().skip(part).step_by(PARTS).copied().collect::<Vec<Page>>();
    let parts = std::iter::once(known.clone()).chain((0..PARTS).map(part));
    let solved = parts.map(|part| masks(&part)).filter(|masks| !masks.is_empty()).map(|masks| {
        let right = predicted(&masks, &known, &held_out);
        Solution { masks, held_out: held_out.len(), right }
    });
    match solved.max_by_key(|found| (found.right, std::cmp::Reverse(found.masks.len()))) {
        Some(best) if best.right * 100 >= best.held_out * LEAST_RIGHT => Fact::Known(best),
        Some(best) => Fact::because(format!(
            "no XOR masks of frame bits decide the colour: the best predict {} of {} pages",
            best.right, best.held_out
        )),
        None => Fact::because("no XOR mask of frame bits is constant on every colour"),
    }
}

/// The simplest independent masks that are constant on every class and not on all pages.
fn masks(pages: &[Page]) -> Vec<u64> {
    let Some((first, _)) = pages.first() else { return vec![] };
    let all = reduced(pages.iter().map(|(frame, _)| frame ^ first));
    let mut heads: BTreeMap<usize, u64> = BTreeMap::new();
    let within = reduced(pages.iter().map(|(frame, class)| frame ^ *heads.entry(*class).or_insert(*frame)));
    let varying = all.iter().fold(0, |bits, row| bits | row);
    let mut candidates = combinations(&orthogonal(&within, varying));
    candidates.sort_unstable_by_key(|mask| (mask.count_ones(), *mask));
    // a mask as a function on the pages: its parities on the basis of all differences
    let function = |mask: u64| {
        all.iter().enumerate().map(|(place, row)| u64::from(parity(row & mask)) << place).sum::<u64>()
    };
    let mut chosen = vec![];
    for mask in candidates {
        let functions = chosen.iter().chain([&mask]).map(|mask| function(*mask));
        if reduced(functions).len() > chosen.len() {
            chosen.push(mask);
        }
    }
    chosen
}

/// Held-out pages whose class is the most frequent one of the known pages with the same parities.
fn predicted(masks: &[u64], known: &[Page], held_out: &[Page]) -> usize {
    let label = |frame: u64| masks.iter().map(|mask| parity(frame & mask)).collect::<Vec<bool>>();
    let mut votes: BTreeMap<Vec<bool>, BTreeMap<usize, usize>> = BTreeMap::new();
    for (frame, class) in known {
        *votes.entry(label(*frame)).or_default().entry(*class).or_default() += 1;
    }
    let guess = |frame: u64| Some(*votes.get(&label(frame))?.iter().max_by_key(|(_, count)| **count)?.0);
    held_out.iter().filter(|(frame, class)| guess(*frame) == Some(*class)).count()
}

fn parity(bits: u64) -> bool {
    bits.count_ones() % 2 == 1
}

/// A basis of what the vectors span, in reduced form: the lowest bit of each row is set in no other.
fn reduced(vectors: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut rows: Vec<u64> = vec![];
    for vector in vectors {
        let clear = |vector: u64, row: &u64| if vector & lowest(*row) != 0 { vector ^ row } else { vector };
        let rest = rows.iter().fold(vector, clear);
        if rest != 0 {
            rows.iter_mut().filter(|row| **row & lowest(rest) != 0).for_each(|row| *row ^= rest);
            rows.push(rest);
        }
    }
    rows
}

fn lowest(bits: u64) -> u64 {
    bits & bits.wrapping_neg()
}

/// A basis of the masks of `bits` that have parity 0 with every row of a reduced basis.
fn orthogonal(rows: &[u64], bits: u64) -> Vec<u64> {
    let pivots = rows.iter().fold(0, |all, row| all | lowest(*row));
    let free = (0..u64::BITS).map(|place| 1 << place).filter(|bit| bits & !pivots & bit != 0);
    free.map(|bit| rows.iter().filter(|row| *row & bit != 0).fold(bit, |mask, row| mask | lowest(*row)))
        .collect()
}

/// Every combination of a few masks; of many, the masks alone.
fn combinations(basis: &[u64]) -> Vec<u64> {
    if basis.len() > MOST_COMBINED {
        return basis.to_vec();
    }
    let combined = |set: u32| {
        let chosen = basis.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
        chosen.fold(0, |mask, (_, member)| mask ^ member)
    };
    (1..1 << basis.len()).map(combined).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: [u64; 4] = [0x1_1111, 0x2_0222, 0x0_4444, 0x8_0088];

    fn frames(count: usize) -> Vec<u64> {
        (0..count).map(|page| super::super::mixed(page) as u64 >> 43).collect()
    }

    fn classes(frames: &[u64], hash: &[u64]) -> Vec<usize> {
        let class = |frame: &u64| hash.iter().fold(0, |class, m| class * 2 + usize::from(parity(frame & m)));
        frames.iter().map(class).collect()
    }

    fn known(fact: Fact<Solution>) -> Solution {
        match fact {
            Fact::Known(solution) => solution,
            Fact::Unknown(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn the_masks_of_a_hash_are_found() {
        let frames = frames(512);
        let solution = known(solve(&classes(&frames, &HASH), &[true; 512], &frames));
        assert_eq!(solution.right, solution.held_out);
        let mut found = solution.masks;
        found.sort_unstable();
        let mut hash = HASH.to_vec();
        hash.sort_unstable();
        assert_eq!(found, hash);
    }

    #[test]
    fn a_few_wrong_pages_do_not_hide_them() {
        let frames = frames(512);
        let mut classes = classes(&frames, &HASH);
        [10, 100].into_iter().for_each(|page| classes[page] = (classes[page] + 1) % 16);
        let solution = known(solve(&classes, &[true; 512], &frames));
        assert_eq!(solution.masks.len(), 4);
        assert!(solution.right + 2 >= solution.held_out);
    }

    #[test]
    fn classes_that_no_bits_decide_have_none() {
        let frames = frames(512);
        let classes: Vec<usize> = (0..512).map(|page| super::super::mixed(page + 1000) % 16).collect();
        for (frames, classes) in [(&frames, &classes), (&vec![], &vec![]), (&vec![5; 512], &classes)] {
            match solve(classes, &[true; 512], frames) {
                Fact::Unknown(reason) => assert!(reason.starts_with("no XOR mask"), "{reason}"),
                Fact::Known(solution) => panic!("{:x?}", solution.masks),
            }
        }
    }
}
