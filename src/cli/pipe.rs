//! The flags of `fsprobe pipe`.

use crate::pipe::{RUNGS, Role, Spec, Touch, YARDSTICKS};
use crate::report::PAGE;
use crate::sweep::{Length, Offsets};
use clap::Args;

/// The largest buffer or pipe: far above what helps, and what the kernel gives.
const LARGEST: u64 = 1 << 30;

/// Options of `fsprobe pipe`.
#[derive(Debug, Args)]
#[command(
    after_help = "The rungs are those of mazzo.li/posts/fast-pipes.html. Each sample is two fresh processes on two CPUs.\n\n\
        Examples:\n  \
        fsprobe pipe                                   the whole ladder in a few seconds\n  \
        fsprobe pipe --rungs write-read --dst 0x0-0x40 --src 0xfc0-0xfff  where its copies meet a band\n  \
        fsprobe pipe --verify --bytes 10G --rounds 1   that every byte arrives, on every rung"
)]
pub struct PipeArgs {
    /// Rungs and yardsticks: write-read, vmsplice-read, vmsplice-splice, each also with -huge; vmsplice-splice-busy,
    /// vmsplice-splice-huge-busy; ram-read, shared-ring [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = rung, help_heading = "What to measure")]
    pub rungs: Vec<Spec>,
    /// Page offsets of the reader's buffer, swept on rungs that read into one
    #[arg(long, value_name = "OFFSETS", help_heading = "What to measure")]
    pub dst: Option<Offsets>,
    /// Page offsets of the writer's buffer, swept on every rung of the pipe
    #[arg(long, value_name = "OFFSETS", help_heading = "What to measure")]
    pub src: Option<Offsets>,
    /// Check every byte's arrival against a pattern; figures then hold the checking too
    #[arg(long, help_heading = "What to measure")]
    pub verify: bool,

    /// Bytes of one sample [default: 256M]; at each page offset 8M, or this where it is less
    #[arg(long, value_name = "SIZE", value_parser = bytes, help_heading = "How to measure")]
    pub bytes: Option<u64>,
    /// Bytes of one call
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = size, help_heading = "How to measure")]
    pub buffer_size: u64,
    /// Bytes that the pipe, and the ring, hold [default: as many as the buffer]
    #[arg(long, value_name = "SIZE", value_parser = size, help_heading = "How to measure")]
    pub pipe_size: Option<u64>,
    /// Give pages away with vmsplice (SPLICE_F_GIFT)
    #[arg(long, help_heading = "How to measure")]
    pub gift: bool,
    /// Non-blocking calls and poll(2) in place of calls that wait, the busy loops apart
    #[arg(long, help_heading = "How to measure")]
    pub poll: bool,
    /// Send one buffer again and again with vmsplice, also while its pages are in the pipe
    #[arg(long, help_heading = "How to measure")]
    pub same_buffer: bool,
    /// Touch buffers once before measuring; `each`: also a byte of each page before and after each transfer;
    /// `never`: not at all
    #[arg(long, value_enum, default_value = "once", help_heading = "How to measure")]
    pub touch: Touch,
    /// Rounds, each with every rung once in fresh random order; intervals need six
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "How to measure")]
    pub rounds: u32,
    /// The writer's and the reader's CPU; one for both [default: the last two allowed, on different cores if there are]
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 1..=2, help_heading = "How to measure")]
    pub cpus: Vec<u32>,
    /// Seed of every random choice [default: taken from the clock, and recorded]
    #[arg(long, allow_negative_numbers = true, value_name = "N", help_heading = "How to measure")]
    pub seed: Option<u64>,

    /// Write JSON to stdout instead of text
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Show no progress
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// What one of the two processes is told on its command line; the rest stands in shared memory.
#[derive(Debug, Args)]
pub struct PipeEndArgs {
    /// Which of the two
    #[arg(value_parser = role)]
    pub role: Role,
    /// Where in shared memory its job begins
    pub job_at: u64,
}

fn rung(name: &str) -> Result<Spec, String> {
    let known = || RUNGS.iter().chain(&YARDSTICKS).map(|s| s.name).collect::<Vec<_>>().join(", ");
    Spec::named(name).ok_or_else(|| format!("no such rung (there are {})", known()))
}

fn role(word: &str) -> Result<Role, String> {
    Role::named(word).ok_or_else(|| "no such process".into())
}

/// A size in whole pages.
fn bytes(text: &str) -> Result<u64, String> {
    let Ok(Length::Bytes(bytes)) = text.parse::<Length>() else {
        return Err(format!("'{text}' is no size (such as 65536, 64K or 1M)"));
    };
    match bytes.is_multiple_of(u64::from(PAGE)) {
        true => Ok(bytes),
        false => Err(format!("{bytes} is not a multiple of {PAGE}: pipes hold whole pages")),
    }
}

fn size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        bytes if bytes <= LARGEST => Ok(bytes),
        _ => Err("more than 1 GiB".into()),
    }
}
