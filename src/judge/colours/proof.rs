//! Whether classes of pages are what they claim: stable, disjoint, transitive. Every pair is a fresh one.

use super::oracle::Oracle;
use super::partition::Partition;
use crate::report::Proof;

/// Further members of its class that each page is compared with.
const FURTHER: usize = 2;

/// Pages compared with every other class, at most.
const WITH_ALL: usize = 512;

/// Tests every page; returns the counts, and which pages contradict.
pub fn prove(oracle: &mut Oracle<'_, '_>, partition: &Partition) -> Option<(Proof, Vec<bool>)> {
    let pool = partition.classes().len();
    let mut proof = Proof { with_all: pool.min(WITH_ALL), ..Proof::default() };
    let mut contradicting = vec![false; pool];
    for (page, contradicts) in contradicting.iter_mut().enumerate() {
        let unstable = !oracle.all_slow(&again(partition, page))?;
        let intransitive = !oracle.all_slow(&further(partition, page))?;
        let shared = page < proof.with_all && oracle.first_slow(&others(partition, page))?.is_some();
        proof.unstable += usize::from(unstable);
        proof.shared += usize::from(shared);
        proof.intransitive += usize::from(intransitive);
        *contradicts = unstable || shared || intransitive;
    }
    Some((proof, contradicting))
}

/// The page as the source this time, and the last other page of its class; no pair in a class of one page.
fn again(partition: &Partition, page: usize) -> Vec<(usize, usize)> {
    let class = &partition.members()[partition.classes()[page]];
    class.iter().rev().find(|member| **member != page).map(|member| (*member, page)).into_iter().collect()
}

/// The page and further members of its class.
fn further(partition: &Partition, page: usize) -> Vec<(usize, usize)> {
    let class = &partition.members()[partition.classes()[page]];
    let place = class.iter().position(|member| *member == page).unwrap_or(0);
    let further = (1..=FURTHER).map(|step| class[(place + step * class.len() / (FURTHER + 1)) % class.len()]);
    further.filter(|member| *member != page).map(|member| (page, member)).collect()
}

/// The page and the last page of every other class.
fn others(partition: &Partition, page: usize) -> Vec<(usize, usize)> {
    let own = partition.classes()[page];
    let classes = partition.members().iter().enumerate().filter(|(class, _)| *class != own);
    classes.filter_map(|(_, members)| Some((page, *members.last()?))).collect()
}
