//! Which ways fit two ends, the cheapest first.
//!
//! What the kernel does in each (its sources, fs/splice.c and fs/read_write.c): splice(2) hands pages on
//! between a pipe and anything; copy_file_range(2) shares extents or copies within the page cache;
//! sendfile(2) splices through a pipe of the kernel's own. All three refuse O_APPEND, except splice into a pipe.

use super::end::{End, Sort};
use std::fmt;

/// Files of less are not spliced into a pipe: a call more than read and write need, and every page of
/// theirs takes a place in the pipe of its own, so that many small ones fill it sooner than their bytes would.
const SMALL: u64 = 64 << 10;

/// One way for bytes from descriptor to descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// copy_file_range(2).
    CopyFileRange,
    /// sendfile(2).
    SendFile,
    /// splice(2), as much as the pipe takes.
    Splice,
    /// splice(2), 16 KiB a call.
    SpliceSmall,
    /// read(2) and write(2) through a buffer.
    ReadWrite,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Way::CopyFileRange => "copy_file_range",
            Way::SendFile => "sendfile",
            Way::Splice => "splice",
            Way::SpliceSmall => "splice of 16 KiB",
            Way::ReadWrite => "read/write",
        })
    }
}

/// A way, and why it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The way.
    pub way: Way,
    /// The reason, for people.
    pub why: &'static str,
}

/// What the user wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Preference {
    /// The cheapest way that is correct
    Auto,
    /// read(2) and write(2), as most programs do
    ReadWrite,
    /// splice(2) of 16 KiB, as fastcat does, where one side is a pipe; else read(2) and write(2)
    #[value(name = "splice-16k")]
    Splice16k,
}

/// The ways to try, in order; the last one is read/write, which always fits.
pub(super) fn ways(input: &End, output: &End, by: Preference) -> Vec<Choice> {
    let asked = "asked for with --way";
    let mut ways = match (by, in_kernel(input, output)) {
        (Preference::ReadWrite, _) => return vec![Choice { way: Way::ReadWrite, why: asked }],
        (_, Err(why)) => return vec![Choice { way: Way::ReadWrite, why }],
        (Preference::Splice16k, Ok(ways)) if ways[0].way != Way::Splice => {
            return vec![Choice { way: Way::ReadWrite, why: "neither side is a pipe" }];
        }
        (Preference::Splice16k, Ok(_)) => vec![Choice { way: Way::SpliceSmall, why: asked }],
        (Preference::Auto, Ok(ways)) => ways,
    };
    ways.push(Choice { way: Way::ReadWrite, why: "the rest" });
    ways
}

/// The ways on which bytes stay in the kernel, or why there is none.
fn in_kernel(input: &End, output: &End) -> Result<Vec<Choice>, &'static str> {
    let chosen = |way, why| Choice { way, why };
    if output.append && output.sort != Sort::Pipe {
        return Err("the output is in append mode, which the other ways refuse");
    }
    match (input.sort, output.sort) {
        (Sort::Terminal, _) | (_, Sort::Terminal) => Err("a terminal, which gives and takes lines"),
        _ if input.identity == output.identity => Err("input and output are one file"),
        (Sort::Other, _) => Err("the input is a device or a socket of messages, which are to stay whole"),
        (Sort::File, _) if input.size == 0 => {
            Err("the input says that it is empty, as files do that are made while they are read (/proc)")
        }
        (Sort::File, Sort::Pipe) if input.left() < SMALL => Err("a small file, for one read and one write"),
        (_, Sort::Pipe) => Ok(vec![chosen(Way::Splice, "the output is a pipe")]),
        (Sort::Pipe, _) => Ok(vec![chosen(Way::Splice, "the input is a pipe")]),
        (Sort::File, Sort::File) => Ok(vec![
            chosen(Way::CopyFileRange, "both sides are files"),
            chosen(Way::SendFile, "both sides are files"),
        ]),
        (Sort::File | Sort::Disk, _) => Ok(vec![chosen(Way::SendFile, "the input is a file")]),
        (Sort::Stream, _) => Err("neither side is a pipe, and the input is a socket"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(sort: Sort) -> End {
        // an identity of its own for every sort
        End { sort, size: SMALL, identity: (1, sort as u64), append: false, position: 0 }
    }

    fn taken(input: &End, output: &End, by: Preference) -> Vec<Way> {
        ways(input, output, by).iter().map(|choice| choice.way).collect()
    }

    #[test]
    fn the_cheapest_way_comes_first_and_read_and_write_last() {
        use Way::{CopyFileRange, ReadWrite, SendFile, Splice};
        let other_file = End { identity: (2, 2), ..end(Sort::File) };
        for (input, output, expected) in [
            (Sort::File, Sort::Pipe, vec![Splice, ReadWrite]),
            (Sort::Pipe, Sort::File, vec![Splice, ReadWrite]),
            (Sort::Stream, Sort::Pipe, vec![Splice, ReadWrite]),
            (Sort::Pipe, Sort::Other, vec![Splice, ReadWrite]),
            (Sort::File, Sort::Stream, vec![SendFile, ReadWrite]),
            (Sort::File, Sort::Other, vec![SendFile, ReadWrite]),
            (Sort::Disk, Sort::File, vec![SendFile, ReadWrite]),
            (Sort::Stream, Sort::File, vec![ReadWrite]),
            (Sort::Terminal, Sort::Pipe, vec![ReadWrite]),
            (Sort::Pipe, Sort::Terminal, vec![ReadWrite]),
            (Sort::Other, Sort::Pipe, vec![ReadWrite]),
        ] {
            assert_eq!(taken(&end(input), &end(output), Preference::Auto), expected, "{input:?} {output:?}");
        }
        let files = taken(&end(Sort::File), &other_file, Preference::Auto);
        assert_eq!(files, [CopyFileRange, SendFile, ReadWrite]);
    }

    #[test]
    fn append_mode_small_files_and_one_file_are_read_and_written() {
        let append = |sort| End { append: true, ..end(sort) };
        let auto = |input: &End, output: &End| taken(input, output, Preference::Auto);
        assert_eq!(auto(&end(Sort::Pipe), &append(Sort::File)), [Way::ReadWrite]);
        assert_eq!(auto(&end(Sort::File), &append(Sort::Pipe)), [Way::Splice, Way::ReadWrite]);
        for size in [0, SMALL - 1] {
            assert_eq!(auto(&End { size, ..end(Sort::File) }, &end(Sort::Pipe)), [Way::ReadWrite]);
        }
        assert_eq!(auto(&end(Sort::File), &end(Sort::File)), [Way::ReadWrite]);
    }

    #[test]
    fn a_way_asked_for_is_taken_where_it_can_be() {
        let (file, pipe, other) = (end(Sort::File), end(Sort::Pipe), end(Sort::Other));
        assert_eq!(taken(&file, &pipe, Preference::ReadWrite), [Way::ReadWrite]);
        assert_eq!(taken(&file, &pipe, Preference::Splice16k), [Way::SpliceSmall, Way::ReadWrite]);
        assert_eq!(taken(&file, &other, Preference::Splice16k), [Way::ReadWrite]);
    }
}
