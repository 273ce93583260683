//! What the sampling loop drives: pools, copy paths and a clock, real or simulated alike.

use crate::allocator::Pool;
use crate::path::{self, Batch, CopyPath, Job, PathError, Side, Spot};
use crate::report::{Allocator, CellSpec, PathName};

/// The clock and the core's speed.
pub trait Clock {
    /// The least difference that the clock shows, its own cost included, in nanoseconds.
    fn precision_ns(&self) -> u64;

    /// Nanoseconds of a fixed dependent arithmetic chain.
    fn chain_ns(&mut self) -> u64;
}

/// The machine under test.
pub struct Machine {
    /// One pool an allocator.
    pub pools: Vec<Box<dyn Pool>>,
    /// The copy paths that work here.
    pub paths: Vec<Box<dyn CopyPath>>,
    /// The clock.
    pub clock: Box<dyn Clock>,
    /// Bytes of the source file.
    pub source_size: u64,
}

impl Machine {
    /// The index of an allocator's pool.
    pub fn pool(&self, allocator: Allocator) -> Option<usize> {
        self.pools.iter().position(|p| p.allocator() == allocator)
    }

    /// The index of a copy path.
    pub fn path(&self, name: PathName) -> Option<usize> {
        self.paths.iter().position(|p| p.name() == name)
    }

    /// On how many start pages of the path's own side (of the source file, mostly) a cell fits; 0 if
    /// that is too short.
    pub fn own_pages(&self, cell: &CellSpec) -> u64 {
        let offset = match Side::of_allocator(cell.path) {
            Side::Destination => cell.src,
            Side::Source => cell.dst,
        };
        let own = self.path(cell.path).and_then(|path| self.paths[path].own_pages(cell.len, offset));
        own.unwrap_or_else(|| path::start_pages(self.source_size, cell.len, offset))
    }

    /// Whether this machine can take a cell.
    ///
    /// # Errors
    /// The reason, for people: no such pool or path, one too short, or offsets that the path cannot have.
    pub fn check(&self, cell: &CellSpec) -> Result<(), String> {
        let path = self.path(cell.path).ok_or_else(|| format!("{} is not available", cell.path))?;
        self.paths[path].can(cell)?;
        if self.own_pages(cell) == 0 {
            return Err(format!(
                "{} has no room for {} bytes at dst {:#05x}, src {:#05x}",
                cell.path, cell.len, cell.dst, cell.src
            ));
        }
        let pool = cell.allocator.and_then(|a| self.pool(a));
        match pool {
            Some(pool) if self.pools[pool].pages(cell.len as usize) > 0 => Ok(()),
            Some(_) => Err(format!("the pool is too small for {} bytes", cell.len)),
            None => Err("the allocator is not available".into()),
        }
    }

    /// Whether this machine can take a cell: its pool and path exist and are long enough.
    pub fn can(&self, cell: &CellSpec) -> bool {
        self.check(cell).is_ok()
    }

    /// Takes one sample.
    pub fn take(&mut self, place: &Place, repeat: u32) -> Result<u64, PathError> {
        let job = place.job(repeat);
        let memory = self.pools[job.pool].buffer(job.page, job.offset, job.len);
        self.paths[place.path].sample(job.copy(memory))
    }

    /// Takes the samples of one path's jobs in order, their nanoseconds into `ns`.
    pub fn take_all(&mut self, path: usize, jobs: &[Job], ns: &mut [u64]) -> Result<(), PathError> {
        if self.pools.iter().any(|pool| pool.renews()) {
            for (job, ns) in jobs.iter().zip(ns) {
                let memory = self.pools[job.pool].buffer(job.page, job.offset, job.len);
                *ns = self.paths[path].sample(job.copy(memory))?;
            }
            return Ok(());
        }
        let mut memories: Vec<&mut [u8]> = self.pools.iter_mut().map(|pool| pool.memory()).collect();
        self.paths[path].samples(&mut Batch::new(&mut memories, jobs, ns))
    }
}

/// Where one copy lies.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Index of the path.
    pub path: usize,
    /// Which side of the path's copies lies in the pool.
    pub side: Side,
    /// Index of the pool.
    pub pool: usize,
    /// Page offset of the destination.
    pub dst: u16,
    /// Page offset of the source.
    pub src: u16,
    /// Bytes.
    pub len: usize,
    /// Start page in the pool.
    pub page: u64,
    /// Start page on the path's own side.
    pub own_page: u64,
}

impl Place {
    /// The job of copying here: the allocator's memory on the side of the copy where the path has it.
    #[inline]
    pub fn job(&self, repeat: u32) -> Job {
        let Place { side, pool, dst, src, len, page, own_page, .. } = *self;
        let (to, from) = (|page| Spot { page, offset: dst }, |page| Spot { page, offset: src });
        let (offset, to, from) = match side {
            Side::Destination => (dst, to(page), from(own_page)),
            Side::Source => (src, to(own_page), from(page)),
        };
        Job { pool, offset, page, to, from, len, repeat }
    }
}

/// Why sampling ended before its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// A signal, by its name.
    Signal(&'static str),
    /// The time given with `--time` is over.
    Time,
    /// Something broke, such as the file having become shorter.
    Fault(String),
}

impl Stop {
    /// The word for the report's `stopped_by`.
    pub fn word(&self) -> String {
        match self {
            Stop::Signal(name) => (*name).into(),
            Stop::Time => "time".into(),
            Stop::Fault(reason) => reason.clone(),
        }
    }
}

/// Who watches a run: shows its progress and may stop it.
pub trait Watcher {
    /// A phase begins; `expected_ns` is an estimate of its copies' time.
    fn begin(&mut self, label: &str, expected_ns: u64);

    /// Copies of that estimate have been done.
    fn advance(&mut self, expected_ns: u64);

    /// Whether to stop now. Asked often, so it must be cheap.
    fn stop(&mut self) -> Option<Stop>;
}

/// A watcher that shows nothing and never stops.
pub struct Unwatched;

impl Watcher for Unwatched {
    fn begin(&mut self, _: &str, _: u64) {}
    fn advance(&mut self, _: u64) {}
    fn stop(&mut self) -> Option<Stop> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::Copy;
    use crate::simulate::Model;

    /// A path whose own side holds ten pages, and which takes dst 0x000 only.
    struct Narrow(PathName);

    impl CopyPath for Narrow {
        fn name(&self) -> PathName {
            self.0
        }

        fn can(&self, cell: &CellSpec) -> Result<(), String> {
            if cell.dst == 0 { Ok(()) } else { Err("dst is always 0x000".into()) }
        }

        fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
            Some(path::start_pages(10 * 4096, len, offset))
        }

        /// Tells where the copy lies: destination page and offset, source page and offset.
        fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
            let spot = |spot: Spot| spot.page * 0x10_000 + u64::from(spot.offset);
            Ok(spot(copy.to) << 32 | spot(copy.from))
        }
    }

    fn machine() -> Machine {
        let mut machine =
            Model::named("clean").unwrap().machine(&[PathName::Read], &[Allocator::Glibc], 5 * 4096, 1);
        machine.paths.push(Box::new(Narrow(PathName::PipeWrite)));
        machine.paths.push(Box::new(Narrow(PathName::PipeRead)));
        machine
    }

    fn cell(path: PathName, dst: u16, src: u16, len: u64) -> CellSpec {
        CellSpec { path, allocator: Some(Allocator::Glibc), len, dst, src, reference: false }
    }

    #[test]
    fn start_pages_are_the_files_or_the_paths_own() {
        let machine = machine();
        assert_eq!(machine.own_pages(&cell(PathName::Read, 8, 1, 4096)), 4);
        assert_eq!(machine.own_pages(&cell(PathName::PipeRead, 8, 1, 4096)), 9);
        // The own side of a path that writes is its destination.
        assert_eq!(machine.own_pages(&cell(PathName::PipeWrite, 0, 1, 4096)), 10);
        assert_eq!(machine.own_pages(&cell(PathName::PipeWrite, 1, 0, 4096)), 9);
    }

    #[test]
    fn what_cannot_be_taken_has_a_reason() {
        let machine = machine();
        let reason = |cell| machine.check(&cell).unwrap_err();
        assert!(machine.can(&cell(PathName::PipeRead, 0, 8, 4096)));
        assert_eq!(reason(cell(PathName::PipeRead, 8, 0, 4096)), "dst is always 0x000");
        assert!(reason(cell(PathName::PipeRead, 0, 0, 1 << 20)).contains("no room"));
        assert!(reason(cell(PathName::Read, 0, 0, 1 << 20)).contains("no room"));
        assert!(reason(cell(PathName::Mmap, 0, 0, 1)).contains("mmap"));
        let foreign = CellSpec { allocator: Some(Allocator::Pages), ..cell(PathName::Read, 0, 0, 1) };
        assert!(reason(foreign).contains("allocator"));
    }

    #[test]
    fn the_pools_page_goes_to_the_side_of_the_allocator() {
        let mut machine = machine();
        let mut taken = |name| {
            let path = machine.path(name).unwrap();
            let side = Side::of_allocator(name);
            let place = Place { path, side, pool: 0, dst: 0xd, src: 0x5, len: 1, page: 7, own_page: 3 };
            machine.take(&place, 1).unwrap()
        };
        assert_eq!(taken(PathName::PipeRead), 0x7_000d << 32 | 0x3_0005);
        assert_eq!(taken(PathName::PipeWrite), 0x3_000d << 32 | 0x7_0005);
    }
}
