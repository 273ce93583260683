//! Which measured copy path stands for a call, and which of its bands a distance falls into.

use crate::report::{FileKind, PathName, TraceBand, TraceBands, TracePath};

/// What a distance means on the path that stands for a copy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Place {
    /// Outside every deep band.
    Outside,
    /// Inside this one.
    Inside(TraceBand),
    /// The distance is not known, or no path that stands for the copy was measured; where it lies deepest, a copy
    /// loses this band's penalty.
    Unknown {
        worst: Option<TraceBand>,
        /// Whether a path was.
        measured: bool,
    },
    /// Nothing is copied by the CPU, or by a driver of its own.
    NotCopied,
}

/// The copy paths that stand for a call, the best first: where one was not measured, the next one's routine is
/// the same.
pub fn of_call(call: &str, kind: FileKind, from_file: Option<bool>) -> &'static [PathName] {
    use PathName::{
        Memcpy, Mmap, PipeRead, PipeWrite, Pread, Preadv, Pwrite, Read, Readv, SocketRead, SocketWrite, Write,
    };
    let reads = from_file.unwrap_or(true);
    match kind {
        FileKind::Direct | FileKind::Device => &[],
        FileKind::Memory => &[Memcpy, Mmap],
        FileKind::Pipe if reads => &[PipeRead, SocketRead, Read, Pread],
        FileKind::Pipe => &[PipeWrite, SocketWrite, Write, Pwrite, PipeRead, Read],
        FileKind::Socket if reads => &[SocketRead, PipeRead, Read, Pread],
        FileKind::Socket => &[SocketWrite, PipeWrite, Write, Pwrite, PipeRead, Read],
        FileKind::PageCache | FileKind::Uncached | FileKind::Unknown => match (reads, call) {
            (true, call) if call.starts_with("preadv") => &[Preadv, Readv, Pread, Read],
            (true, call) if call.starts_with("pread") => &[Pread, Read, Preadv, Readv],
            (true, call) if call.starts_with("readv") => &[Readv, Preadv, Read, Pread],
            (true, _) => &[Read, Pread, Readv, Preadv],
            (false, call) if call.starts_with("pwrite") => &[Pwrite, Write, Read, Pread],
            (false, _) => &[Write, Pwrite, Read, Pread],
        },
    }
}

/// The copy paths that stand for a copy which an interrupt met: in user space it was a `rep movs` for certain,
/// in the kernel the path's words say what for.
pub fn of_sample(kernel: Option<&str>) -> &'static [PathName] {
    use PathName::{
        Memcpy, PipeRead, PipeWrite, Pread, Pwrite, Read, RepMovsb, SocketRead, SocketWrite, Write,
    };
    let Some(kernel) = kernel else { return &[RepMovsb, Memcpy, Read, Pread] };
    let says = |words: &[&str]| words.iter().any(|word| kernel.contains(word));
    let writes = says(&["write", "send", "from_iter", "from_user"]);
    match (says(&["pipe"]), says(&["sock", "unix", "skb", "tcp", "udp", "recv", "send"]), writes) {
        (true, _, false) => &[PipeRead, Read, Pread, RepMovsb],
        (true, _, true) => &[PipeWrite, Write, Pwrite, Read, RepMovsb],
        (_, true, false) => &[SocketRead, PipeRead, Read, RepMovsb],
        (_, true, true) => &[SocketWrite, PipeWrite, Write, Read, RepMovsb],
        (.., true) => &[Write, Pwrite, Read, RepMovsb],
        (.., false) => &[Read, Pread, Write, RepMovsb],
    }
}

/// The first of the paths that was measured, at each length.
pub fn lengths<'a>(all: &'a [TracePath], paths: &[PathName]) -> impl Iterator<Item = &'a TracePath> + Clone {
    let is_measured = |name: &&PathName| all.iter().any(|path| path.path == **name);
    let first = paths.iter().find(is_measured).copied();
    all.iter().filter(move |path| Some(path.path) == first)
}

/// The same at the length nearest to this one.
pub fn measured<'a>(all: &'a [TracePath], paths: &[PathName], len: f64) -> Option<&'a TracePath> {
    lengths(all, paths).min_by(|a, b| far(a.len, len).total_cmp(&far(b.len, len)))
}

/// How far two lengths are apart, by ratio.
pub fn far(one: u64, other: f64) -> f64 {
    (one.max(1) as f64 / other.max(1.0)).log2().abs()
}

/// The band of a path that holds a distance.
pub fn band(path: &TracePath, distance: u16) -> Option<TraceBand> {
    path.bands.iter().find(|band| band.contains(distance)).copied()
}

/// The band of a path that costs most.
fn deepest(path: &TracePath) -> Option<TraceBand> {
    path.bands.iter().copied().max_by(by_penalty)
}

/// Whether the kernel's copy routines move the bytes: not with O_DIRECT, and of devices only the driver knows.
pub fn is_copied(kind: FileKind) -> bool {
    !matches!(kind, FileKind::Direct | FileKind::Device)
}

/// The band of all that costs most.
pub fn worst(bands: &TraceBands) -> Option<TraceBand> {
    bands.paths.iter().filter_map(deepest).max_by(by_penalty)
}

/// The share of the time in a band that is lost; elsewhere, what comes on top of the time here.
pub fn gain(band: &TraceBand, elsewhere: bool) -> f64 {
    let slowdown = band.slowdown.max(1.0);
    if elsewhere { slowdown - 1.0 } else { 1.0 - 1.0 / slowdown }
}

/// The same of the band that slows most.
pub fn worst_gain(bands: &TraceBands) -> f64 {
    let all = bands.paths.iter().flat_map(|path| &path.bands);
    let slowed = all.map(|band| gain(band, bands.elsewhere)).fold(0.0, f64::max);
    // elsewhere: as much as samples can come to, whose time is turned into bytes at this machine's speed
    let here = measured(&bands.here, of_sample(None), super::sampled::LEN).filter(|_| bands.elsewhere);
    let speed = here.and_then(|path| path.baseline_bytes_per_s).unwrap_or(0.0);
    let penalty = worst(bands).map_or(0.0, |band| band.penalty_ns_per_kib);
    slowed.max(speed / 1e9 / 1024.0 * penalty)
}

/// What a copy of `len` bytes means that a call made.
pub fn place(
    bands: &TraceBands,
    (call, kind, from_file): (&str, FileKind, Option<bool>),
    distance: Option<u16>,
    len: f64,
) -> Place {
    if !is_copied(kind) {
        return Place::NotCopied;
    }
    let path = measured(&bands.paths, of_call(call, kind, from_file), len);
    match (path, distance) {
        (Some(path), Some(distance)) => band(path, distance).map_or(Place::Outside, Place::Inside),
        (Some(path), None) => Place::Unknown { worst: deepest(path), measured: true },
        // no path that would tell was measured: its bands may be those of any
        (None, _) => Place::Unknown { worst: worst(bands), measured: false },
    }
}

fn by_penalty(a: &TraceBand, b: &TraceBand) -> std::cmp::Ordering {
    a.penalty_ns_per_kib.total_cmp(&b.penalty_ns_per_kib)
}
