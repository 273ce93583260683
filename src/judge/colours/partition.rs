//! Classes of pages: each new page is compared with one page of every class.

use super::oracle::{Oracle, PASSES};

/// Classes beyond which no more are founded: what needs more is no partition, and its proof shows it.
const MOST: usize = 512;

/// Pages taken at least, and for each class: at 12 a class, one in 160,000 stays unseen.
const LEAST_PAGES: usize = 512;
const PAGES_PER_CLASS: usize = 12;

/// A pool's pages in classes.
pub struct Partition {
    class: Vec<usize>,
    members: Vec<Vec<usize>>,
}

impl Partition {
    /// Partitions as many pages of a pool as it takes to meet every class; none once the run was stopped.
    pub fn of(oracle: &mut Oracle<'_, '_>, pool: usize) -> Option<Partition> {
        let mut members: Vec<Vec<usize>> = vec![];
        let mut taken = 0;
        while taken < pool && taken < LEAST_PAGES.max(PAGES_PER_CLASS * members.len()) {
            let pairs: Vec<(usize, usize)> = members.iter().map(|class| (taken, class[0])).collect();
            let found = match oracle.first_slow(&pairs)? {
                None => oracle.slow(&pairs, PASSES)?.iter().position(|slow| *slow),
                found => found,
            };
            match found {
                Some(class) => members[class].push(taken),
                None if members.len() < MOST => members.push(vec![taken]),
                None => members[MOST - 1].push(taken),
            }
            taken += 1;
        }
        let members = merged(oracle, members)?;
        let mut class = vec![0; taken];
        for (index, pages) in members.iter().enumerate() {
            pages.iter().for_each(|page| class[*page] = index);
        }
        Some(Partition { class, members })
    }

    /// The class of each page.
    pub fn classes(&self) -> &[usize] {
        &self.class
    }

    /// The pages of each class, the largest first.
    pub fn members(&self) -> &[Vec<usize>] {
        &self.members
    }

    /// How many pages each class has, the largest first.
    pub fn sizes(&self) -> Vec<usize> {
        self.members.iter().map(Vec::len).collect()
    }

    /// Up to `most` pairs of pages of one class, and of two, spread over the classes.
    pub fn sample(&self, most: usize) -> [Vec<(usize, usize)>; 2] {
        let deepest = self.members.first().map_or(0, Vec::len);
        let same = (1..deepest).flat_map(|at| {
            self.members.iter().filter_map(move |class| Some((*class.get(at - 1)?, *class.get(at)?)))
        });
        let other = (0..deepest).flat_map(|at| {
            self.members.windows(2).filter_map(move |two| Some((*two[0].get(at)?, *two[1].get(at)?)))
        });
        [same.take(most).collect(), other.take(most).collect()]
    }
}

/// Joins classes whose first pages are slow with each other: a class founded by a mistake. The largest first.
fn merged(oracle: &mut Oracle<'_, '_>, classes: Vec<Vec<usize>>) -> Option<Vec<Vec<usize>>> {
    let mut kept: Vec<Vec<usize>> = vec![];
    for class in classes {
        let pairs: Vec<(usize, usize)> = kept.iter().map(|other| (class[0], other[0])).collect();
        match oracle.first_slow(&pairs)? {
            Some(same) => kept[same].extend(class),
            None => kept.push(class),
        }
    }
    kept.sort_by_key(|class| std::cmp::Reverse(class.len()));
    Some(kept)
}
