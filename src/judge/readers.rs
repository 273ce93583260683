//! What the times of `fsprobe readers` come to: medians, slowdowns, and why a reader is slower than the best.

use super::stats::{median_interval, median_of};
use crate::report::{Excess, HugePages, MovedBuffer, Reader, ReaderName, Readers, Reason, Times};

/// Up to here a reader is as fast as the best.
const AS_FAST: f64 = 1.05;

/// Up to here intervals that overlap mean as fast; beyond, that it cannot be told.
const NEAR: f64 = 1.2;

/// From this ratio on, its interval above [`AS_FAST`], an offset counts as slow.
const SLOW_OFFSET: f64 = 1.1;

/// The least share of the excess that is a reason.
const SHARE: f64 = 0.4;

/// From this factor on, page faults can be what takes longer.
const MORE_FAULTS: f64 = 1.1;

/// Fills in everything that follows from the samples.
pub fn conclude(readers: &mut Readers) {
    for reader in &mut readers.readers {
        let times = [reader.read.as_mut(), reader.call.as_mut(), Some(&mut reader.process)];
        times.into_iter().flatten().for_each(summarise);
        reader.moved.as_mut().into_iter().for_each(compare);
        // noise sets runs with and without the tracer apart, and so the part and the whole
        if reader.read.as_ref().is_some_and(|read| read.median_ns > NEAR * reader.whole().median_ns) {
            reader.read = None;
            reader.read_unknown =
                Some("they took longer while they were watched than the whole of it unwatched".into());
        }
    }
    let size = readers.size;
    for kind in [HugePages::Off, HugePages::On, HugePages::AsIs] {
        let Some(best_call) = best(&readers.readers, kind).cloned() else { continue };
        let best_process = fastest_process(&readers.readers, kind, size).cloned();
        for reader in readers.readers.iter_mut().filter(|reader| reader.huge_pages == kind) {
            // a program that tells nothing of its call is compared as a process with a process
            let best = best_process.as_ref().filter(|_| reader.call.is_none()).unwrap_or(&best_call);
            if !reader.read_otherwise(size) {
                explain(reader, best);
            }
        }
    }
}

fn summarise(times: &mut Times) {
    let ns: Vec<f64> = times.ns.iter().map(|ns| *ns as f64).collect();
    times.ci95_ns = median_interval(&ns);
    times.median_ns = median_of(ns).unwrap_or(0.0);
}

/// How many times as long the reads take at the reader's offset, round by round.
fn compare(moved: &mut MovedBuffer) {
    let pairs = moved.same_ns.iter().zip(&moved.moved_ns).filter(|(_, moved)| **moved > 0);
    let ratios: Vec<f64> = pairs.map(|(same, moved)| *same as f64 / *moved as f64).collect();
    moved.ratio_ci95 = median_interval(&ratios);
    moved.ratio = median_of(ratios).unwrap_or(1.0);
    moved.slow = moved.ratio >= SLOW_OFFSET && moved.ratio_ci95.is_some_and(|[low, _]| low > AS_FAST);
}

/// The fastest reader that copies the file and tells the time of its call. A mapping copies nothing.
fn best(readers: &[Reader], kind: HugePages) -> Option<&Reader> {
    let fit = |r: &&Reader| r.huge_pages == kind && r.reader != ReaderName::Mmap && r.call.is_some();
    readers.iter().filter(fit).min_by(|a, b| a.whole().median_ns.total_cmp(&b.whole().median_ns))
}

/// The reader whose process is over first.
fn fastest_process(readers: &[Reader], kind: HugePages, size: u64) -> Option<&Reader> {
    let copies = |r: &&Reader| r.reader != ReaderName::Mmap && !r.read_otherwise(size);
    let fit = |r: &&Reader| r.huge_pages == kind && copies(r) && !r.process.ns.is_empty();
    readers.iter().filter(fit).min_by(|a, b| a.process.median_ns.total_cmp(&b.process.median_ns))
}

fn explain(reader: &mut Reader, best: &Reader) {
    if reader.whole().ns.is_empty() {
        return;
    }
    let (own, other) = match &reader.call {
        Some(call) => (call, best.whole()),
        None => (&reader.process, &best.process),
    };
    reader.slowdown = (other.median_ns > 0.0).then(|| own.median_ns / other.median_ns);
    let excess = excess(reader, best, own.median_ns - other.median_ns);
    reader.reason = match reader.slowdown {
        None => Reason::Unknown,
        Some(slowdown) if slowdown <= AS_FAST => Reason::AsFast,
        _ if own.ci95_ns.is_none() || other.ci95_ns.is_none() => Reason::Unknown,
        Some(slowdown) if overlap(own, other) => {
            if slowdown <= NEAR {
                Reason::AsFast
            } else {
                Reason::Unknown
            }
        }
        Some(_) => largest(&excess, reader),
    };
    reader.excess = Some(excess);
}

/// Whether the intervals of two medians share a value, so that noise alone could set them apart.
fn overlap(own: &Times, other: &Times) -> bool {
    own.ci95_ns.zip(other.ci95_ns).is_some_and(|([low, _], [_, high])| low <= high)
}

fn excess(reader: &Reader, best: &Reader, total_ns: f64) -> Excess {
    let read = |r: &Reader| r.read.as_ref().map(|read| read.median_ns);
    let outside = |times: &Times, r: &Reader| read(r).map(|read| times.median_ns - read);
    let beyond =
        |own: Option<f64>, other: Option<f64>| own.zip(other).map_or(0.0, |(own, other)| own - other);
    let in_call = |r: &Reader| r.call.as_ref().and_then(|call| outside(call, r));
    Excess {
        total_ns,
        offset_ns: reader.moved.as_ref().map_or(0.0, offset_ns),
        faults_ns: match more_faults(reader, best) {
            true => beyond(reader.moved.as_ref().map(faults_ns), best.moved.as_ref().map(faults_ns)),
            false => 0.0,
        },
        process_ns: match reader.call {
            Some(_) => 0.0,
            None => beyond(outside(&reader.process, reader), outside(&best.process, best)),
        },
        buffering_ns: beyond(in_call(reader), in_call(best)),
    }
}

/// What the offset costs; nothing where the other offset is not clearly faster.
fn offset_ns(moved: &MovedBuffer) -> f64 {
    if moved.slow { middle(&moved.same_ns) - middle(&moved.moved_ns) } else { 0.0 }
}

/// Whether a reader has more page faults than the best one; not known counts as yes.
fn more_faults(reader: &Reader, best: &Reader) -> bool {
    let both = reader.faults.zip(best.faults);
    both.is_none_or(|(own, other)| own as f64 > MORE_FAULTS * other as f64)
}

fn faults_ns(moved: &MovedBuffer) -> f64 {
    middle(&moved.same_ns) - middle(&moved.present_ns)
}

fn middle(ns: &[u64]) -> f64 {
    median_of(ns.iter().map(|ns| *ns as f64)).unwrap_or(0.0)
}

/// The reason that most of the excess has; the offset wins where it is one.
fn largest(excess: &Excess, reader: &Reader) -> Reason {
    let parts = [
        (excess.offset_ns, Reason::Offset),
        (excess.faults_ns, Reason::Faults),
        (excess.process_ns, Reason::ProcessStart),
        (excess.buffering_ns, Reason::Buffering),
    ];
    let enough = |ns: f64| ns >= SHARE * excess.total_ns;
    match parts.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)) {
        _ if excess.offset_ns > 0.0 && enough(excess.offset_ns) => Reason::Offset,
        Some((ns, reason)) if enough(ns) => reason,
        _ if reader.moved.is_none() && reader.read.is_none() => Reason::Unknown,
        _ => Reason::Unexplained,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Landed;

    const MS: u64 = 1_000_000;

    fn times(ms: u64) -> Times {
        Times { ns: (0..7).map(|i| ms * MS + i).collect(), ..Times::default() }
    }

    /// A reader with the milliseconds of its read, call and process, and of its reads done again.
    fn reader(name: ReaderName, [read, call, process]: [u64; 3], again: [u64; 3]) -> Reader {
        let [same_ns, moved_ns, present_ns] = again.map(|ms| times(ms).ns);
        Reader {
            reader: name,
            huge_pages: HugePages::Off,
            program: None,
            landed: Some(Landed::at(0x010, 0, 1, 1 << 26)),
            bytes: None,
            read: (read > 0).then(|| times(read)),
            read_unknown: None,
            call: (call > 0).then(|| times(call)),
            process: times(process),
            faults: Some(100),
            moved: Some(MovedBuffer {
                dst: 0x410,
                same_ns,
                moved_ns,
                present_ns,
                ratio: 0.0,
                ratio_ci95: None,
                slow: false,
            }),
            slowdown: None,
            reason: Reason::Unknown,
            excess: None,
        }
    }

    fn reasons(list: Vec<Reader>) -> Vec<Reason> {
        let mut readers = Readers {
            file: None,
            size: 1 << 26,
            fs_type: None,
            cpu: 0,
            rounds: 7,
            untraced: None,
            huge_pages_note: None,
            readers: list,
            skipped: vec![],
        };
        conclude(&mut readers);
        readers.readers.iter().map(|r| r.reason).collect()
    }

    fn best_one() -> Reader {
        reader(ReaderName::FreadMoved, [10, 12, 13], [10, 10, 8])
    }

    #[test]
    fn each_reason_where_it_is_one() {
        let faults = Reader { faults: Some(1000), ..reader(ReaderName::FsRead, [20, 22, 23], [20, 20, 8]) };
        let list = vec![
            best_one(),
            reader(ReaderName::Fread, [24, 26, 27], [24, 10, 22]),
            faults,
            // as many faults as the best: they explain nothing
            reader(ReaderName::FsRead, [20, 22, 23], [20, 20, 8]),
            reader(ReaderName::BufReader, [11, 30, 31], [10, 10, 8]),
            reader(ReaderName::Command, [10, 0, 60], [10, 10, 8]),
            reader(ReaderName::Python, [10, 12, 50], [10, 10, 8]),
            reader(ReaderName::Jemalloc, [30, 32, 33], [10, 10, 8]),
            reader(ReaderName::Mmap, [0, 1, 2], [0, 0, 0]),
        ];
        let expected = [
            Reason::AsFast,
            Reason::Offset,
            Reason::Faults,
            Reason::Unexplained,
            Reason::Buffering,
            Reason::ProcessStart,
            Reason::AsFast,
            Reason::Unexplained,
            Reason::AsFast,
        ];
        assert_eq!(reasons(list), expected);
    }

    #[test]
    fn an_offset_that_is_not_clearly_slower_is_no_reason() {
        let mut moved = reader(ReaderName::Fread, [1, 1, 1], [20, 10, 10]).moved.unwrap();
        compare(&mut moved);
        assert!(moved.slow);
        moved.moved_ns = [10, 10, 40, 40, 10, 30, 30].map(|ms| ms * MS).to_vec();
        compare(&mut moved);
        assert!(!moved.slow, "{:?}", moved.ratio_ci95);
    }

    #[test]
    fn what_noise_could_set_apart_is_as_fast() {
        let mut noisy = reader(ReaderName::Fread, [10, 13, 14], [10, 10, 8]);
        noisy.call =
            Some(Times { ns: [11, 11, 13, 13, 13, 20, 20].map(|ms| ms * MS).to_vec(), ..Times::default() });
        assert_eq!(reasons(vec![best_one(), noisy]), [Reason::AsFast; 2]);
    }

    #[test]
    fn few_samples_and_none_are_no_panic() {
        let mut lone = best_one();
        lone.call = None;
        lone.process = Times::default();
        assert_eq!(reasons(vec![lone.clone()]), [Reason::Unknown]);
        lone.moved = None;
        assert_eq!(reasons(vec![lone, best_one()])[0], Reason::Unknown);
        assert!(reasons(vec![]).is_empty());
    }
}
