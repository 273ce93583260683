use super::*;
use proptest::prelude::*;

fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
    let size = (HEADER + words.len() * 8) as u16;
    let mut bytes = kind.to_ne_bytes().to_vec();
    bytes.extend(misc.to_ne_bytes());
    bytes.extend(size.to_ne_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    bytes
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn split_one(bytes: &[u8]) -> Raw {
    let mut all = Vec::new();
    split(bytes, &mut all);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// A sample in the kernel with a chain of two, 16 bytes of stack of which 8 are filled.
fn sampled() -> Vec<u8> {
    let context_kernel = 0u64.wrapping_sub(128);
    let chain = [3, context_kernel, 0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000];
    let words = [0xffff_ffff_8100_0000, pair(7, 8), 99].into_iter().chain(chain);
    let words = words.chain([2, 4096, 0x10, 0x20, 0x30, 16, 0x1234, 0, 8, 2, 100, 0x5000, 0x5008, 0x202]);
    record(SAMPLE, KERNEL_MODE, &words.collect::<Vec<_>>())
}

#[test]
fn samples_are_read() {
    let raw = split_one(&sampled());
    assert_eq!(raw.time, 99);
    let Some(Record::Sample(sample)) = raw.read(true) else { panic!("{raw:?}") };
    assert!(sample.in_kernel);
    assert_eq!((sample.ip, sample.pid, sample.tid), (0xffff_ffff_8100_0000, 7, 8));
    assert_eq!(sample.chain, [0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000]);
    assert_eq!(sample.registers, Some(Registers { cx: 100, si: 0x5000, di: 0x5008, flags: 0x202 }));
    let stack = &0x1234u64.to_ne_bytes()[..];
    assert_eq!(sample.user, Some(User { is_64: true, dx: 4096, bp: 0x10, sp: 0x20, ip: 0x30, stack }));
}

#[test]
fn threads_of_the_kernel_have_no_user_space() {
    let raw = split_one(&record(SAMPLE, KERNEL_MODE, &[5, pair(2, 2), 9, 0, 0, 0]));
    let Some(Record::Sample(sample)) = raw.read(false) else { panic!("{raw:?}") };
    assert_eq!((sample.user, sample.registers), (None, None));
}

#[test]
fn the_other_records_are_read() {
    let trailer = [pair(7, 8), 55];
    let with = |kind, misc, words: &[u64]| split_one(&record(kind, misc, &[words, &trailer[..]].concat()));
    let name = u64::from_ne_bytes(*b"cat\0\0\0\0\0");
    let raw = with(COMM, BY_EXEC, &[pair(7, 8), name]);
    assert_eq!(raw.time, 55);
    let named = Record::Named { pid: 7, tid: 8, by_exec: true, name: "cat".into() };
    assert_eq!(raw.read(true), Some(named));
    let began = Record::Began { pid: 1, parent: 2, tid: 3, parent_tid: 4 };
    assert_eq!(with(FORK, 0, &[pair(1, 2), pair(3, 4), 50]).read(true), Some(began));
    assert_eq!(
        with(EXIT, 0, &[pair(1, 2), pair(3, 4), 50]).read(true),
        Some(Record::Ended { pid: 1, tid: 3 })
    );
    assert_eq!(with(LOST, 0, &[1, 17]).read(true), Some(Record::Lost(17)));
    assert_eq!(with(LOST_SAMPLES, 0, &[18]).read(true), Some(Record::Lost(18)));
    assert_eq!(with(THROTTLE, 0, &[1, 2, 3]).read(true), Some(Record::Throttled));
    let file = u64::from_ne_bytes(*b"/bin/cat");
    let raw = with(MMAP2, 0, &[pair(7, 7), 0x1000, 0x2000, 0x3000, pair(8, 1), 42, 0, pair(5, 2), file, 0]);
    let id = (8, 1, 42);
    let name = "/bin/cat".to_owned();
    let mapped = Record::Mapped { pid: 7, start: 0x1000, end: 0x3000, offset: 0x3000, id, name };
    assert_eq!(raw.read(true), Some(mapped));
    assert_eq!(with(77, 0, &[]).read(true), None, "a kind of later kernels");
}

#[test]
fn whole_records_before_a_broken_one_are_kept() {
    let mut bytes = [sampled(), sampled()].concat();
    bytes.extend(record(SAMPLE, 0, &[1, 2, 3])[..20].iter());
    let mut all = Vec::new();
    split(&bytes, &mut all);
    assert_eq!(all.len(), 2);
    bytes[6..8].copy_from_slice(&3u16.to_ne_bytes());
    all.clear();
    split(&bytes, &mut all);
    assert_eq!(all, [], "a size below that of a header");
}

proptest! {
    #[test]
    fn bytes_of_any_content_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..2000), chains: bool) {
        let mut all = Vec::new();
        split(&bytes, &mut all);
        for raw in &all {
            let _ = raw.read(chains);
        }
    }

    #[test]
    fn samples_with_wrong_words_are_survived(at in 1usize..20, value: u64, chains: bool) {
        let mut bytes = sampled();
        if at * 8 + 8 <= bytes.len() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_ne_bytes());
        }
        let raw = split_one(&bytes);
        if let Some(Record::Sample(sample)) = raw.read(chains) {
            prop_assert!(sample.chain.len() <= bytes.len() / 8);
            prop_assert!(sample.user.is_none_or(|user| user.stack.len() <= bytes.len()));
        }
    }
}
