//! Real descriptors whose state changes in the middle, and system calls that a sandbox refuses.

use super::*;
use crate::sys::refuse::{self, Refusal};
use crate::sys::{descriptor, interrupt};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 253) as u8).collect()
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

fn whole(mut file: &File) -> Vec<u8> {
    let mut content = vec![];
    file.rewind().unwrap();
    file.read_to_end(&mut content).unwrap();
    content
}

fn auto(input: impl AsFd, output: impl AsFd) -> Passage {
    pass(input.as_fd(), output.as_fd(), Preference::Auto, &mut Buffer::default())
}

/// The ways with bytes on them.
fn taken(passage: &Passage) -> Vec<Way> {
    assert!(passage.trouble.is_none(), "{passage}");
    passage.legs.iter().filter(|leg| leg.bytes > 0).map(|leg| leg.choice.way).collect()
}

/// Sends three parts, each when the one before has arrived in `output`; after the first comes `change`. A call
/// that waits for the second part was begun before, so the third is the first to meet what has changed.
fn in_parts(parts: [&[u8]; 3], output: &File, change: impl FnOnce() + Send) -> Passage {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut send = move |part: &[u8]| {
        let expected = output.metadata().unwrap().len() + part.len() as u64;
        writer.write_all(part).unwrap();
        while output.metadata().unwrap().len() < expected {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            send(parts[0]);
            change();
            send(parts[1]);
            send(parts[2]);
        });
        auto(&reader, output)
    })
}

#[test]
fn append_mode_set_in_the_middle_changes_the_way_and_no_byte() {
    let output = file(b"");
    let same = output.try_clone().unwrap();
    let content = bytes(400_000);
    let parts = [&content[..200_000], &content[200_000..270_001], &content[270_001..]];
    let passage = in_parts(parts, &output, move || {
        rustix::fs::fcntl_setfl(&same, rustix::fs::OFlags::APPEND).unwrap();
    });
    assert_eq!(taken(&passage), [Way::Splice, Way::ReadWrite], "{passage}");
    assert!(passage.to_string().contains("refused: Invalid argument; then read/write"), "{passage}");
    assert!(whole(&output) == content);
}

#[test]
fn calls_that_a_sandbox_refuses_are_done_without() {
    let content = bytes(1_000_001);
    let refused = [libc::SYS_splice, libc::SYS_copy_file_range, libc::SYS_sendfile];
    let checked = [Refusal::Error(libc::EPERM), Refusal::Kill].map(|refusal| {
        refuse::in_a_thread(&refused, refusal, || {
            let (input, output) = (file(&content), file(b""));
            let passage = auto(&input, &output);
            assert_eq!(taken(&passage), [Way::ReadWrite]);
            assert_eq!(passage.legs.len(), 3, "{passage}");
            assert_eq!(whole(&output), content);
        })
    });
    let without_one = refuse::in_a_thread(&[libc::SYS_copy_file_range], Refusal::Error(libc::EXDEV), || {
        let (input, output) = (file(&content), file(b""));
        assert_eq!(taken(&auto(&input, &output)), [Way::SendFile]);
        assert_eq!(whole(&output), content);
    });
    assert_eq!(checked.map(|checked| checked.is_some()), [without_one.is_some(); 2]);
}

#[test]
fn positions_are_those_of_the_descriptors() {
    let (mut input, mut output) = (file(&bytes(5000)), file(b"before:"));
    input.seek(SeekFrom::Start(1000)).unwrap();
    output.seek(SeekFrom::End(0)).unwrap();
    assert_eq!(taken(&auto(&input, &output)), [Way::CopyFileRange]);
    assert_eq!(input.stream_position().unwrap(), 5000);
    output.write_all(b":after").unwrap();
    assert_eq!(whole(&output), [b"before:", &bytes(5000)[1000..], b":after"].concat());
}

#[test]
fn interrupted_and_non_blocking_ends_lose_nothing() {
    let content = bytes(3_000_001);
    for asked in [Preference::Auto, Preference::ReadWrite] {
        let (mut source, input) = UnixStream::pair().unwrap();
        let (mut reader, output) = std::io::pipe().unwrap();
        descriptor::never_wait(input.as_fd()).unwrap();
        descriptor::never_wait(output.as_fd()).unwrap();
        let target = interrupt::this_thread();
        let done = std::sync::atomic::AtomicBool::new(false);
        let arrived = std::thread::scope(|scope| {
            let content = &content;
            scope.spawn(move || {
                for part in content.chunks(77_777) {
                    source.write_all(part).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::SeqCst) {
                    target.interrupt();
                    std::thread::sleep(Duration::from_micros(300));
                }
            });
            let arrived = scope.spawn(move || {
                let mut arrived = vec![];
                let mut part = vec![0; 40_961];
                while let Ok(count @ 1..) = reader.read(&mut part) {
                    arrived.extend_from_slice(&part[..count]);
                    std::thread::sleep(Duration::from_micros(200));
                }
                arrived
            });
            let passage = pass(input.as_fd(), output.as_fd(), asked, &mut Buffer::default());
            done.store(true, std::sync::atomic::Ordering::SeqCst);
            assert!(passage.trouble.is_none(), "{passage}");
            drop(output);
            arrived.join().unwrap()
        });
        assert!(arrived == content, "{asked:?}: {} bytes", arrived.len());
    }
}

#[test]
fn a_file_is_not_passed_into_its_own_future() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"0123456789").unwrap();
    let read = || File::open(file.path()).unwrap();
    let options = |append| File::options().write(true).append(append).open(file.path()).unwrap();
    let looped = |passage: Passage| matches!(passage.trouble, Some(Trouble::Loop));
    assert!(looped(auto(read(), options(true))));
    let mut ahead = options(false);
    ahead.seek(SeekFrom::Start(4)).unwrap();
    assert!(looped(auto(read(), &ahead)));
    // onto itself it is only rewritten, and from behind it ends
    assert_eq!(taken(&auto(read(), options(false))), [Way::ReadWrite]);
    let mut behind = read();
    behind.seek(SeekFrom::Start(4)).unwrap();
    assert_eq!(taken(&auto(&behind, options(false))), [Way::ReadWrite]);
    assert_eq!(std::fs::read(file.path()).unwrap(), b"4567896789");
    // at its end there is nothing to pass
    assert_eq!(taken(&auto(&behind, options(true))), []);
}

#[test]
fn what_a_pipe_can_hold_passes_without_a_reader() {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let holds = descriptor::pipe_capacity(writer.as_fd()).unwrap();
    let content = bytes(holds);
    assert!(auto(file(&content), &writer).trouble.is_none());
    drop(writer);
    let mut arrived = vec![];
    reader.read_to_end(&mut arrived).unwrap();
    assert!(arrived == content);
}

#[test]
fn pipes_are_widened_where_pages_are_spliced() {
    let content = bytes(2_000_000);
    let (mut reader, writer) = std::io::pipe().unwrap();
    let before = descriptor::pipe_capacity(writer.as_fd()).unwrap();
    assert!(auto(file(b"small"), &writer).widened.is_empty());
    reader.read_exact(&mut [0; 5]).unwrap();
    let passage = std::thread::scope(|scope| {
        let passage = scope.spawn(|| auto(file(&content), &writer));
        let mut arrived = vec![0; content.len()];
        reader.read_exact(&mut arrived).unwrap();
        assert!(arrived == content);
        passage.join().unwrap()
    });
    // a user's pipes may be at their limit already
    let now = descriptor::pipe_capacity(writer.as_fd()).unwrap();
    assert_eq!(passage.widened.is_empty(), now == before, "{passage}");
    assert_eq!(passage.to_string().contains("the output widened from"), now > before, "{passage}");
}
