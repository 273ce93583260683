//! Which page offsets a copy path can vary: a small pure table, so that grids and judges agree on what
//! may be asked for. The paths themselves refuse the same offsets, with the kernel's reasons.

use super::verdict::{Axis, Band, PathVerdict, Scan};
use super::words::{PAGE, PathName, distance};

impl PathName {
    /// The side that lies in the allocator's memory, which a sweep varies: the source of what is written
    /// into the kernel, the destination of everything else.
    pub const fn own_scan(self) -> Scan {
        match self {
            PathName::Write | PathName::Pwrite | PathName::PipeWrite | PathName::SocketWrite => Scan::Src,
            _ => Scan::Dst,
        }
    }

    /// The side whose page offset is always 0x000, if either is: fresh pages of the kernel are filled
    /// from their start, and what only clears has no source.
    pub const fn fixed(self) -> Option<Scan> {
        match self {
            PathName::PipeWrite | PathName::SocketWrite => Some(Scan::Dst),
            PathName::Zero => Some(Scan::Src),
            _ => None,
        }
    }

    /// The shortest copy whose page offsets are known, in bytes: the kernel puts less than a page for a
    /// Unix socket where it likes.
    pub const fn shortest(self) -> u64 {
        match self {
            PathName::SocketWrite => PAGE as u64,
            _ => 1,
        }
    }

    /// The shortest copy that is sampled without being asked for, in bytes. Shorter non-temporal stores wait for
    /// whatever else of the program lies at their page offset, such as its stack: several times as long, and at
    /// another offset in every process.
    pub const fn tells_from(self) -> u64 {
        match self {
            PathName::NonTemporal => PAGE as u64,
            path => path.shortest(),
        }
    }

    /// Whether the path can have these page offsets.
    pub const fn takes(self, dst: u16, src: u16) -> bool {
        match self.fixed() {
            Some(Scan::Dst) => dst.is_multiple_of(PAGE),
            Some(Scan::Src) => src.is_multiple_of(PAGE),
            None => true,
        }
    }

    /// Whether the copy happens in user space, without a system call.
    pub const fn is_user_space(self) -> bool {
        matches!(
            self,
            PathName::Memcpy
                | PathName::RepMovsb
                | PathName::RepMovsq
                | PathName::MovUnrolled
                | PathName::Avx2
                | PathName::Avx512
                | PathName::NonTemporal
        )
    }

    /// Whether it copies from the source file; others bring a source of their own.
    pub const fn reads_source(self) -> bool {
        matches!(
            self,
            PathName::Read
                | PathName::Readv
                | PathName::Pread
                | PathName::Preadv
                | PathName::IoUringRead
                | PathName::Mmap
                | PathName::Splice
        )
    }

    /// Whether the destination is out of the caches afterwards. Beside such a path in one round, others
    /// would find their pages cold after it, and it would find its own warm after them: times in two modes.
    pub const fn leaves_uncached(self) -> bool {
        matches!(self, PathName::NonTemporal)
    }

    /// Whether the kernel's own copy routine moves the bytes: not those of a mapping, which the program
    /// copies, and not the controls, which copy nothing or only clear.
    pub const fn is_copied_by_kernel(self) -> bool {
        !self.is_user_space() && !matches!(self, PathName::Mmap | PathName::Splice | PathName::Zero)
    }
}

impl PathVerdict {
    /// Where a band lies by distance, where that is known: with the destination always at 0x000, source and
    /// distance say the same.
    pub fn by_distance(&self, band: &Band) -> Option<(u16, u16)> {
        match (band.axis, self.path.fixed(), band.scan) {
            (Some(Axis::Distance), ..) => Some((band.from, band.to)),
            (_, Some(Scan::Dst), Scan::Src) => Some((distance(0, band.to), distance(0, band.from))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_pages_are_fixed() {
        assert!(PathName::Write.takes(7, 9) && PathName::Read.takes(7, 9));
        assert!(PathName::PipeWrite.takes(0, 9) && PathName::PipeWrite.takes(PAGE, 9));
        assert!(!PathName::PipeWrite.takes(7, 0) && !PathName::SocketWrite.takes(7, 0));
        assert!(PathName::Zero.takes(7, 0) && !PathName::Zero.takes(7, 9));
    }
}
