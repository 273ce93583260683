//! Whether classes of pages are what they claim: stable, disjoint, transitive. Every pair is a fresh one.

use super::oracle::Oracle;
use super::partition::Partition;
use crate::report::Proof;

/// Further members of its class that each page is compared with.
const FURTHER: usize = 2;

/// Tests every page; returns the counts, and which pages contradict.
pub fn prove(oracle: &mut Oracle<'_, '_>, partition: &Partition) -> Option<(Proof, Vec<bool>)> {
    let mut proof = Proof::default();
    let mut contradicting = vec![false; partition.classes().len()];
    for (page, contradicts) in contradicting.iter_mut().enumerate() {
        let [unstable, shared] = again(oracle, partition, page)?;
        let intransitive = !with_its_own(oracle, partition, page)?;
        proof.unstable += usize::from(unstable);
        proof.shared += usize::from(shared);
        proof.intransitive += usize::from(intransitive);
        *contradicts = unstable || shared || intransitive;
    }
    Some((proof, contradicting))
}

/// Classifies a page once more, as the source this time and against the last page of each class: whether
/// it is fast with its own class, and whether it is slow with another.
fn again(oracle: &mut Oracle<'_, '_>, partition: &Partition, page: usize) -> Option<[bool; 2]> {
    let own = partition.classes()[page];
    let other_than = |class: &Vec<usize>| class.iter().rev().copied().find(|member| *member != page);
    // a class of one page has no other
    let asked: Vec<(usize, usize)> = partition
        .members()
        .iter()
        .enumerate()
        .filter_map(|(index, class)| Some((index, other_than(class)?)))
        .collect();
    let pairs: Vec<(usize, usize)> = asked.iter().map(|(_, member)| (*member, page)).collect();
    let wrong = |slow: &[bool]| {
        let judged = || asked.iter().zip(slow);
        let unstable = judged().any(|((class, _), slow)| *class == own && !slow);
        [unstable, judged().any(|((class, _), slow)| *class != own && *slow)]
    };
    let slow = oracle.slow_unless(&pairs, |slow| wrong(slow) == [false; 2])?;
    Some(wrong(&slow))
}

/// Whether a page is slow with further members of its class.
fn with_its_own(oracle: &mut Oracle<'_, '_>, partition: &Partition, page: usize) -> Option<bool> {
    let class = &partition.members()[partition.classes()[page]];
    let place = class.iter().position(|member| *member == page).unwrap_or(0);
    let further = (1..=FURTHER).map(|step| class[(place + step * class.len() / (FURTHER + 1)) % class.len()]);
    let pairs: Vec<(usize, usize)> = further.filter(|member| *member != page).map(|m| (page, m)).collect();
    let all = |slow: &[bool]| slow.iter().all(|s| *s);
    Some(all(&oracle.slow_unless(&pairs, all)?))
}
