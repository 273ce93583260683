//! Properties: whatever the kernel's mood, every byte arrives once and in order.

use super::*;
use crate::cat::way::Way;
use proptest::prelude::*;

/// What a call does next.
#[derive(Debug, Clone, Copy)]
enum Mood {
    /// Passes so many bytes at most.
    Passes(usize),
    Interrupted,
    NotReady,
    /// Fails in a way that only this call minds.
    Refuses,
    /// Says 0 although there is more.
    SaysEnd,
}

/// An input and an output in memory, and calls that go through a list of moods, then pass everything.
struct Moody {
    input: Vec<u8>,
    read: usize,
    output: Vec<u8>,
    moods: std::vec::IntoIter<Mood>,
    waited: Vec<Wait>,
    /// Bytes that the output takes before it is full, and what it says then.
    room: usize,
    full: ErrorKind,
}

impl Moody {
    fn new(input: Vec<u8>, moods: Vec<Mood>) -> Moody {
        let moods = moods.into_iter();
        let (room, full) = (usize::MAX, ErrorKind::StorageFull);
        Moody { input, read: 0, output: vec![], moods, waited: vec![], room, full }
    }

    /// How many of `len` bytes pass now.
    fn mood(&mut self, len: usize, may_end: bool) -> io::Result<usize> {
        match self.moods.next().unwrap_or(Mood::Passes(usize::MAX)) {
            Mood::Passes(most) => Ok(len.min(most.max(1))),
            Mood::Interrupted => Err(ErrorKind::Interrupted.into()),
            Mood::NotReady => Err(ErrorKind::WouldBlock.into()),
            Mood::Refuses if may_end => Err(ErrorKind::InvalidInput.into()),
            Mood::SaysEnd if may_end => Ok(0),
            Mood::Refuses | Mood::SaysEnd => Ok(len),
        }
    }

    fn take(&mut self, count: usize) -> io::Result<usize> {
        let room = self.room - self.output.len();
        if count > 0 && room == 0 {
            return Err(self.full.into());
        }
        Ok(count.min(room))
    }
}

impl Calls for Moody {
    fn pass(&mut self, way: Way) -> io::Result<usize> {
        assert_ne!(way, Way::ReadWrite);
        let left = self.input.len() - self.read;
        let count = self.mood(left, true)?;
        let count = self.take(count)?;
        self.output.extend_from_slice(&self.input[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }

    fn read(&mut self, dst: &mut [u8]) -> io::Result<usize> {
        let left = dst.len().min(self.input.len() - self.read);
        let count = self.mood(left, false)?;
        dst[..count].copy_from_slice(&self.input[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }

    fn write(&mut self, src: &[u8]) -> io::Result<usize> {
        let count = self.mood(src.len(), false)?;
        let count = self.take(count)?;
        self.output.extend_from_slice(&src[..count]);
        Ok(count)
    }

    fn wait(&mut self, on: Wait) -> io::Result<()> {
        self.waited.push(on);
        Ok(())
    }

    fn positions(&self) -> (u64, u64) {
        (self.read as u64, self.output.len() as u64)
    }
}

fn moods() -> impl Strategy<Value = Vec<Mood>> {
    let mood = prop_oneof![
        8 => (1usize..5000).prop_map(Mood::Passes),
        2 => Just(Mood::Interrupted),
        2 => Just(Mood::NotReady),
        1 => Just(Mood::Refuses),
        1 => Just(Mood::SaysEnd),
    ];
    prop::collection::vec(mood, 0..200)
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ (i >> 8) as u8).collect()
}

/// The ways between two files.
fn ways() -> Vec<Choice> {
    [Way::CopyFileRange, Way::SendFile, Way::ReadWrite].map(|way| Choice { way, why: "test" }).into()
}

fn run(calls: &mut Moody, ending: Ending) -> (Vec<Leg>, Result<(), Trouble>) {
    transfer(calls, &ways(), ending, &mut Buffer::default())
}

proptest! {
    #[test]
    fn every_byte_arrives_once_and_in_order(
        len in 0usize..400_000, said in 0u64..500_000, moods in moods(),
    ) {
        let mut calls = Moody::new(bytes(len), moods);
        let (legs, ended) = run(&mut calls, Ending::After(said));
        prop_assert!(ended.is_ok());
        prop_assert_eq!(&calls.output, &calls.input);
        prop_assert_eq!(legs.iter().map(|leg| leg.bytes).sum::<u64>(), len as u64);
    }

    #[test]
    fn a_full_output_is_told_and_holds_the_beginning(
        len in 1usize..400_000, room in 0usize..400_000, moods in moods(), closed: bool,
    ) {
        let mut calls = Moody::new(bytes(len), moods);
        calls.room = room;
        calls.full = if closed { ErrorKind::BrokenPipe } else { ErrorKind::StorageFull };
        let (legs, ended) = run(&mut calls, Ending::After(u64::MAX));
        match ended {
            Ok(()) => prop_assert!(len <= room),
            Err(Trouble::Closed) => prop_assert!(closed && len > room),
            Err(Trouble::Write(_)) => prop_assert!(!closed && len > room),
            Err(other) => prop_assert!(false, "{}", other),
        }
        prop_assert_eq!(&calls.output[..], &calls.input[..len.min(room)]);
        prop_assert_eq!(legs.iter().map(|leg| leg.bytes).sum::<u64>(), calls.output.len() as u64);
    }
}

#[test]
fn the_end_of_a_pipe_is_asked_for_once_and_that_of_a_file_twice() {
    for (ending, moods, expected) in [
        (Ending::Once, vec![Mood::Passes(10), Mood::SaysEnd], 10),
        (Ending::After(u64::MAX), vec![Mood::Passes(10), Mood::SaysEnd], 100),
        (Ending::After(10), vec![Mood::Passes(10)], 100),
    ] {
        let mut calls = Moody::new(bytes(100), moods);
        assert!(run(&mut calls, ending).1.is_ok());
        assert_eq!(calls.output, &calls.input[..expected]);
    }
}

#[test]
fn each_way_knows_which_side_it_waits_for() {
    use Mood::{NotReady, Passes, Refuses};
    let moods = vec![NotReady, Refuses, Refuses, NotReady, Passes(9), NotReady];
    let mut calls = Moody::new(bytes(10), moods);
    let (legs, _) = run(&mut calls, Ending::After(u64::MAX));
    assert_eq!(calls.waited, [Wait::Both, Wait::Input, Wait::Output]);
    let left: Vec<_> = legs.iter().map(|leg| (leg.choice.way, leg.left.is_some(), leg.bytes)).collect();
    assert_eq!(left, [(Way::CopyFileRange, true, 0), (Way::SendFile, true, 0), (Way::ReadWrite, false, 10)]);
}

#[test]
fn a_way_that_never_gets_ready_is_left() {
    let moods = vec![Mood::NotReady; PATIENCE as usize + 1];
    let mut calls = Moody::new(bytes(10), moods);
    let (legs, ended) = run(&mut calls, Ending::Once);
    assert!(ended.is_ok() && legs[0].left.is_some());
    assert_eq!(calls.output, calls.input);
}
