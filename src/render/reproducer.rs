//! A C program of at most 60 lines that shows a report's band without fsprobe.
//!
//! Only numbers and words of fsprobe's own go into it, so nothing of a hostile report becomes code.

use crate::report::{Axis, Band, Depth, PAGE, PathName, PathVerdict, Report, Scan};
use std::cmp::Reverse;

/// The program, to be filled in.
const PROGRAM: &str = include_str!("reproducer/program.c");
/// Copies are no longer than this, whatever a report says, in bytes.
const LONGEST: u64 = 64 << 20;
/// One timing covers about so many bytes, so that it outlasts the clock.
const BYTES_TIMED: u64 = 64 << 10;
/// The length shown where no band names one.
const USUAL: u64 = 64 << 10;
/// A buffer offset of the published bands, shown where the report has none.
const SAMPLE: u16 = 0x008;

/// What the program copies with, what is shown first before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Routine {
    Pread,
    Pwrite,
    Memcpy,
    RepMovsb,
    RepMovsq,
}

/// One copy's page offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Of the destination.
    pub dst: u16,
    /// Of the source.
    pub src: u16,
}

/// What the program shows: two places, one length, one routine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reproducer {
    /// The path of the report that is shown.
    pub path: PathName,
    /// Bytes of one copy.
    pub len: u64,
    /// The slow place, or a sample of where bands were published.
    pub first: Place,
    /// A fast place of the same alignment.
    pub second: Place,
    /// Whether the report has a deep band at the first place.
    pub has_band: bool,
    /// A path that was judged, where the program can show none that was.
    unshown: Option<PathName>,
    routine: Routine,
}

impl Reproducer {
    /// The program for a report's main path: its deepest band where the kernel copies, else where user
    /// space does, else a sample.
    pub fn of(report: &Report) -> Reproducer {
        let deepest = report
            .verdict
            .paths
            .iter()
            .flat_map(|v| v.bands.iter().map(move |b| (v, b)))
            .filter(|(v, b)| b.depth == Depth::Deep && routine_of(v.path).is_some())
            .max_by(|(v, b), (w, c)| rank(v, b).cmp(&rank(w, c)).then(b.slowdown.total_cmp(&c.slowdown)));
        let window = report.verdict.windows.first();
        let (path, len, axis, scan, at) = match (deepest, window) {
            (Some((verdict, band)), _) => {
                let middle = band.from.wrapping_add((band.width() - 1) / 2) % PAGE;
                (verdict.path, verdict.len, band.axis, band.scan, middle)
            }
            (None, Some(window)) => {
                // well inside, where the usual length is
                let len = USUAL.min(window.to_len).max(window.from_len);
                (window.path, len, Some(Axis::Distance), window.path.own_scan(), SAMPLE)
            }
            (None, None) => {
                let judged = report.verdict.paths.iter().map(|v| v.path);
                let path = judged.filter(|p| routine_of(*p).is_some()).min().unwrap_or(PathName::Pread);
                (path, USUAL, Some(Axis::Distance), path.own_scan(), SAMPLE)
            }
        };
        let mut judged = report.verdict.paths.iter().map(|v| v.path);
        let unshown = judged.next().filter(|_| !report.verdict.paths.iter().any(|v| v.path == path));
        let of_path: Vec<&PathVerdict> = report.verdict.paths.iter().filter(|v| v.path == path).collect();
        let fast = fast(&of_path, at);
        let [first, second] = [at, fast].map(|offset| place(path, axis, scan, offset));
        Reproducer {
            path,
            len: len.clamp(1, LONGEST),
            first,
            second,
            has_band: deepest.is_some() || window.is_some(),
            unshown,
            routine: routine_of(path).unwrap_or(Routine::Pread),
        }
    }

    /// What is to be said of the program, in a sentence.
    pub fn explained(&self) -> String {
        let what = self.routine.what();
        match self.has_band {
            true if self.routine.is_path(self.path) => {
                format!("It times {what} at an offset inside the band and at a fast one.")
            }
            true => format!(
                "The band was found on {}; the program shows the same distance with {what}, which the same \
                 routine copies for.",
                self.path
            ),
            false => {
                let instead = self.unshown.map(|path| format!(", and no program shows {path}"));
                format!(
                    "No deep band was found{}, so it times {what} at an offset where bands were published \
                     (distance 0x008) and at one of the same alignment far from there.",
                    instead.unwrap_or_default()
                )
            }
        }
    }

    /// The C source.
    pub fn source(&self) -> String {
        let own = |place: Place| if self.routine.buffer() == Scan::Dst { place.dst } else { place.src };
        let other = |place: Place| if self.routine.buffer() == Scan::Dst { place.src } else { place.dst };
        let two = |of: &dyn Fn(Place) -> u16| format!("0x{:03x}, 0x{:03x}", of(self.first), of(self.second));
        let [state, copy, prepare] = self.routine.parts();
        let filled = [
            ("@what@", self.routine.what().to_owned()),
            ("@len@", self.len.to_string()),
            ("@repeat@", (BYTES_TIMED / self.len).clamp(1, 64).to_string()),
            ("@first@", if self.has_band { "slow" } else { "near" }.into()),
            ("@second@", if self.has_band { "fast" } else { "far" }.into()),
            ("@side@", if self.routine.buffer() == Scan::Dst { "destination" } else { "source" }.into()),
            ("@mine@", two(&own)),
            ("@others@", two(&other)),
            ("@state@", state.into()),
            ("@copy@", copy.into()),
            ("@prepare@", prepare.into()),
        ];
        filled.into_iter().fold(PROGRAM.to_owned(), |text, (mark, value)| text.replace(mark, &value))
    }
}

/// Which band is shown: a confirmed one, of reads before writes before user space, at the usual length.
fn rank(verdict: &PathVerdict, band: &Band) -> (bool, Reverse<Option<Routine>>, bool, bool) {
    let routine = routine_of(verdict.path);
    let is_own = routine.is_some_and(|routine| routine.is_path(verdict.path));
    (band.confirmed, Reverse(routine), is_own, verdict.len == USUAL)
}

/// The routine that shows a path; none where the program has none that copies like it.
fn routine_of(path: PathName) -> Option<Routine> {
    use PathName as P;
    Some(match path {
        P::Read | P::Pread | P::Readv | P::Preadv | P::PipeRead | P::SocketRead => Routine::Pread,
        P::ProcessVmRead | P::IoUringRead => Routine::Pread,
        P::Write | P::Pwrite | P::PipeWrite | P::SocketWrite => Routine::Pwrite,
        P::Mmap | P::Memcpy => Routine::Memcpy,
        P::RepMovsb => Routine::RepMovsb,
        P::RepMovsq => Routine::RepMovsq,
        P::MovUnrolled | P::Avx2 | P::Avx512 | P::NonTemporal | P::Splice | P::Zero => return None,
    })
}

/// An offset of the same alignment, clear of every band of the path.
fn fast(verdicts: &[&PathVerdict], slow: u16) -> u16 {
    const STEP: u16 = 0x040;
    const MARGIN: u16 = 4;
    let bands = || verdicts.iter().flat_map(|v| &v.bands);
    let clear = |offset: u16| {
        let near = |b: &Band| (0..=2 * MARGIN).any(|i| b.contains((offset + PAGE + i - MARGIN) % PAGE));
        !bands().any(near)
    };
    // far first: mild levels fade with distance
    let candidates = (0..PAGE / STEP).map(|i| (slow % PAGE + 0x400 + i * STEP) % PAGE);
    candidates.clone().find(|o| clear(*o)).unwrap_or((slow % PAGE + PAGE / 2) % PAGE)
}

/// The page offsets at which a band's offset is met, the rest at 0x000.
fn place(path: PathName, axis: Option<Axis>, scan: Scan, offset: u16) -> Place {
    let side = match axis {
        Some(Axis::Dst) => Scan::Dst,
        Some(Axis::Src) => Scan::Src,
        Some(Axis::Distance) if path.own_scan() == Scan::Src => {
            return Place { dst: 0, src: (PAGE - offset % PAGE) % PAGE };
        }
        Some(Axis::Distance) => Scan::Dst,
        Some(Axis::Mixed) | None => scan,
    };
    match side {
        Scan::Dst => Place { dst: offset % PAGE, src: 0 },
        Scan::Src => Place { dst: 0, src: offset % PAGE },
    }
}

impl Routine {
    /// For people, and for the comment of the program.
    fn what(self) -> &'static str {
        match self {
            Routine::Pread => "pread(2) from the page cache",
            Routine::Pwrite => "pwrite(2) into the page cache",
            Routine::Memcpy => "memcpy of the C library",
            Routine::RepMovsb => "rep movsb in user space",
            Routine::RepMovsq => "rep movsq in user space",
        }
    }

    /// Whether a report's path is this very way of copying.
    fn is_path(self, path: PathName) -> bool {
        match self {
            Routine::Pread => matches!(path, PathName::Read | PathName::Pread),
            Routine::Pwrite => matches!(path, PathName::Write | PathName::Pwrite),
            Routine::Memcpy => path == PathName::Memcpy,
            Routine::RepMovsb | Routine::RepMovsq => true,
        }
    }

    /// The side of the copy that the program's buffer is on.
    fn buffer(self) -> Scan {
        if self == Routine::Pwrite { Scan::Src } else { Scan::Dst }
    }

    /// What the program keeps, how it copies, and how it gets ready.
    fn parts(self) -> [&'static str; 3] {
        const FILE: &str = "static int file;";
        const MEMORY: &str = "static char *source;";
        const MAKE_FILE: &str = "  FILE *made = tmpfile(); /* read from the page cache, gone at the end */
  if (made == NULL || fwrite(pool, size, 1, made) != 1 || fflush(made))
    return perror(\"tmpfile\"), 1;
  file = fileno(made);";
        const MAKE_MEMORY: &str = "  source = mmap(NULL, size, PROT_READ | PROT_WRITE, how, -1, 0);
  if (source == MAP_FAILED) return perror(\"mmap\"), 1;
  memset(source, 2, size);";
        match self {
            Routine::Pread => {
                [FILE, "  if (pread(file, buffer, LEN, at) != LEN) perror(\"pread\"), exit(1);", MAKE_FILE]
            }
            Routine::Pwrite => {
                [FILE, "  if (pwrite(file, buffer, LEN, at) != LEN) perror(\"pwrite\"), exit(1);", MAKE_FILE]
            }
            Routine::Memcpy => [
                "static char *source;\nstatic void *(*volatile libc)(void *, const void *, size_t) = memcpy;",
                "  libc(buffer, source + at, LEN);",
                MAKE_MEMORY,
            ],
            Routine::RepMovsb => [
                MEMORY,
                "  char *to = buffer, *from = source + at; size_t count = LEN;
  __asm__ volatile(\"rep movsb\" : \"+D\"(to), \"+S\"(from), \"+c\"(count)::\"memory\");",
                MAKE_MEMORY,
            ],
            Routine::RepMovsq => [
                MEMORY,
                "  char *to = buffer, *from = source + at; size_t count = LEN / 8;
  __asm__ volatile(\"rep movsq\" : \"+D\"(to), \"+S\"(from), \"+c\"(count)::\"memory\");",
                MAKE_MEMORY,
            ],
        }
    }
}
