//! Every allocator's buffers under every copy path: the bytes that arrive are the file's, at the exact
//! address, and nothing around them is touched.

use fsprobe::allocator::{self, PageKind, Pool, PoolSpec};
use fsprobe::path::{Copy, CopyPath, Opener, PathError, Source, Spot};
use fsprobe::report::{Allocator, PAGE, PathName, offset_of};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The paths that read the file by calls that the kernel counts as reading.
const CALLS: [PathName; 4] = [PathName::Read, PathName::Readv, PathName::Pread, PathName::Preadv];
const MAX_LEN: usize = 20_000;
const GUARD: u8 = 0x5c;

/// The paths that read the file, as far as this machine has them.
fn file_paths(source: &Source) -> Vec<Box<dyn CopyPath>> {
    let more = [PathName::IoUringRead, PathName::Mmap];
    let opener = Opener::new(source, MAX_LEN);
    let open = |name| opener.open(name).inspect_err(|reason| eprintln!("skipped: {reason}")).ok();
    CALLS.into_iter().chain(more).filter_map(open).collect()
}

/// A file of random bytes, and the same bytes in memory.
fn file(folder: &tempfile::TempDir, size: usize) -> (PathBuf, Vec<u8>) {
    let mut bytes = vec![0; size];
    Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut bytes);
    let path = folder.path().join("source");
    std::fs::write(&path, &bytes).unwrap();
    (path, bytes)
}

/// A pool of each allocator that this process has.
fn pools(pages: PageKind, first_touch: bool) -> Vec<Box<dyn Pool>> {
    let spec = PoolSpec { max_len: MAX_LEN + 2 * usize::from(PAGE), pages, first_touch, to_come: 1 };
    let all = Allocator::ALL.iter().filter_map(|&name| allocator::open(name, &spec).ok());
    all.collect()
}

fn take(
    path: &mut dyn CopyPath,
    pool: &mut dyn Pool,
    to: Spot,
    from: Spot,
    len: usize,
    repeat: u32,
) -> Result<u64, PathError> {
    let dst = pool.buffer(to.page, to.offset, len);
    assert_eq!(offset_of(dst.as_ptr() as u64), to.offset % PAGE);
    path.sample(Copy { memory: dst, to, from, len, repeat, first_touch: false })
}

#[test]
fn the_files_bytes_arrive_and_nothing_else_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (name, bytes) = file(&folder, 1 << 20);
    let source = Source::open(&name).unwrap();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut pools = pools(PageKind::Small, false);
    assert!(pools.len() >= 3);
    for pool in &mut pools {
        let pages = pool.pages(MAX_LEN + 2 * usize::from(PAGE));
        for mut path in file_paths(&source) {
            for offset in 0..=PAGE {
                let len = random.random_range(1..=if offset % 64 == 0 { MAX_LEN } else { 600 });
                let position = random.random_range(0..=(bytes.len() - len) as u64);
                let from = Spot { page: position / u64::from(PAGE), offset: offset_of(position) };
                let to = Spot { page: random.random_range(1..pages), offset };
                let repeat = random.random_range(1..=3);
                // The buffer with a page on either side of it.
                let (page, around) = (usize::from(PAGE), len + 2 * usize::from(PAGE));
                pool.buffer(to.page - 1, offset, around).fill(GUARD);
                take(path.as_mut(), pool.as_mut(), to, from, len, repeat).unwrap();
                let found = pool.buffer(to.page - 1, offset, around);
                let what = format!("{} dst {offset:#x} len {len} from {position}", path.name());
                assert!(found[page..page + len] == bytes[position as usize..][..len], "{what}: bytes");
                assert!(found[..page].iter().all(|&byte| byte == GUARD), "{what}: before");
                assert!(found[page + len..].iter().all(|&byte| byte == GUARD), "{what}: after");
            }
        }
    }
}

#[test]
fn other_pages_and_first_touch_read_the_same_bytes() {
    let source = Source::own(1 << 18).unwrap();
    let from = Spot { page: 3, offset: 0x123 };
    let to = Spot { page: 5, offset: 0xff8 };
    let mut found: Vec<Vec<u8>> = vec![];
    for (pages, first_touch) in [
        (PageKind::Small, false),
        (PageKind::Small, true),
        (PageKind::Transparent, false),
        (PageKind::Transparent, true),
        (PageKind::Reserved, false),
    ] {
        for mut pool in pools(pages, first_touch) {
            let mut path = Opener::new(&source, MAX_LEN).open(PathName::Pread).unwrap();
            let dst = pool.buffer(to.page, to.offset, MAX_LEN);
            path.sample(Copy { memory: &mut *dst, to, from, len: MAX_LEN, repeat: 2, first_touch: false })
                .unwrap();
            found.push(dst.to_vec());
        }
    }
    assert!(found.len() >= 6);
    assert!(found.iter().all(|bytes| *bytes == found[0]));
    assert!(found[0].iter().any(|&byte| byte != found[0][0]));
}

/// Bytes that this thread has read by system calls, where the kernel counts them.
fn bytes_read() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    text.lines().find_map(|line| line.strip_prefix("rchar: "))?.parse().ok()
}

#[test]
fn a_sample_copies_as_often_as_asked_for() {
    let source = Source::own(1 << 20).unwrap();
    let mut pool = pools(PageKind::Small, false).pop().unwrap();
    let spot = Spot { page: 0, offset: 0 };
    for name in CALLS {
        let mut path = Opener::new(&source, MAX_LEN).open(name).unwrap();
        let mut read = |repeat| {
            let before = bytes_read()?;
            let ns = take(path.as_mut(), pool.as_mut(), spot, spot, MAX_LEN, repeat).unwrap();
            assert!(ns > 0 || repeat == 0);
            Some(bytes_read()? - before)
        };
        // Reading the counter is counted as well, each time alike but for a digit.
        if let (Some(none), Some(many)) = (read(0), read(50)) {
            assert!((many - none).abs_diff(50 * MAX_LEN as u64) < 100, "{name}: {}", many - none);
        }
    }
}

#[test]
fn a_file_cut_short_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (name, bytes) = file(&folder, 100_000);
    let source = Source::open(&name).unwrap();
    let mut pool = pools(PageKind::Small, false).pop().unwrap();
    let writer = OpenOptions::new().write(true).open(&name).unwrap();
    for mut path in file_paths(&source) {
        let path_name = path.name();
        writer.set_len(bytes.len() as u64).unwrap();
        let from = Spot { page: 20, offset: 0x10 };
        let mut sample = || take(path.as_mut(), pool.as_mut(), Spot { page: 0, offset: 1 }, from, 10_000, 2);
        assert!(sample().is_ok());
        // Once in the middle of the copy, once before its start.
        for size in [from.position() + 5000, 10] {
            writer.set_len(size).unwrap();
            assert!(matches!(sample(), Err(PathError::SourceShort)), "{path_name} {size}");
        }
    }
    assert!(source.changed());
}

#[test]
fn a_file_cut_short_again_and_again_while_it_is_copied_kills_nobody() {
    const SIZE: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let (name, _) = file(&folder, SIZE as usize);
    let source = Source::open(&name).unwrap();
    let mut pool = pools(PageKind::Small, false).pop().unwrap();
    let writer = OpenOptions::new().write(true).open(&name).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for size in [10_000, SIZE] {
                    writer.set_len(size).unwrap();
                }
            }
        });
        for mut path in file_paths(&source) {
            for page in 0..200 {
                let (to, from) = (Spot { page: 0, offset: 8 }, Spot { page, offset: 0x123 });
                match take(path.as_mut(), pool.as_mut(), to, from, MAX_LEN, 20) {
                    Ok(_) | Err(PathError::SourceShort) => {}
                    Err(other) => panic!("{} page {page}: {other}", path.name()),
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_growing_file_is_read_as_before() {
    let folder = tempfile::tempdir().unwrap();
    let (name, bytes) = file(&folder, 50_000);
    let source = Source::open(&name).unwrap();
    OpenOptions::new().write(true).open(&name).unwrap().set_len(200_000).unwrap();
    let mut pool = pools(PageKind::Small, false).pop().unwrap();
    let spot = Spot { page: 2, offset: 0 };
    for mut path in file_paths(&source) {
        take(path.as_mut(), pool.as_mut(), spot, spot, 10_000, 1).unwrap();
        assert!(pool.buffer(2, 0, 10_000) == &bytes[8192..18_192]);
    }
    assert_eq!(source.size(), 50_000);
    assert!(source.changed());
}

#[test]
fn positions_beyond_any_file_are_an_error() {
    let source = Source::own(4096).unwrap();
    let mut pool = pools(PageKind::Small, false).pop().unwrap();
    for mut path in file_paths(&source) {
        let far = Spot { page: 1 << 51, offset: 0 };
        assert!(take(path.as_mut(), pool.as_mut(), Spot { page: 0, offset: 0 }, far, 10, 1).is_err());
    }
}
