//! What the sampling loop drives: pools, copy paths and a clock, real or simulated alike.

use crate::allocator::Pool;
use crate::path::{self, Batch, CopyPath, Job, Kind, Pages, PathError};
use crate::report::{Allocator, CellSpec, PathName, Scan};

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

    /// Whether buffers are of fresh pages, that the copy faults in.
    pub fn renews(&self) -> bool {
        self.pools.iter().any(|pool| pool.renews())
    }

    /// The index of a copy path.
    pub fn path(&self, name: PathName) -> Option<usize> {
        self.paths.iter().position(|p| p.name() == name)
    }

    /// On how many start pages of the path's own side (of the source file, mostly) a cell fits; 0 if
    /// that is too short.
    pub fn own_pages(&self, cell: &CellSpec) -> u64 {
        let offset = match cell.path.own_scan() {
            Scan::Dst => cell.src,
            Scan::Src => cell.dst,
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
    pub fn take(&mut self, path: usize, job: &Job, kind: &Kind, pages: &Pages) -> Result<u64, PathError> {
        let memory = self.pools[usize::from(job.pool)].buffer(job.page(pages), job.offset(kind), kind.len);
        self.paths[path].sample(job.copy(kind, pages, memory))
    }

    /// Takes the samples of one path's jobs in order, their nanoseconds into `ns` by slot.
    pub fn take_all(
        &mut self,
        path: usize,
        jobs: &[Job],
        kinds: &[Kind],
        pages: &Pages,
        ns: &mut [u64],
    ) -> Result<(), PathError> {
        if self.renews() {
            for job in jobs {
                ns[job.slot as usize] = self.take(path, job, &kinds[usize::from(job.kind)], pages)?;
            }
            return Ok(());
        }
        let mut memories: Vec<&mut [u8]> = self.pools.iter_mut().map(|pool| pool.memory()).collect();
        let memories = memories.as_mut_slice();
        self.paths[path].samples(&mut Batch { memories, jobs, kinds, pages, ns })
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
    use crate::allocator::Pool;
    use crate::path::{Copy, Spot};

    /// A path that takes dst 0x000 only if its own side holds pages of its own.
    struct Narrow {
        name: PathName,
        pages: Option<u64>,
    }

    impl CopyPath for Narrow {
        fn name(&self) -> PathName {
            self.name
        }

        fn can(&self, cell: &CellSpec) -> Result<(), String> {
            if cell.dst == 0 || self.pages.is_none() { Ok(()) } else { Err("dst is always 0x000".into()) }
        }

        fn own_pages(&self, len: u64, offset: u16) -> Option<u64> {
            self.pages.map(|pages| path::start_pages(pages * 4096, len, offset))
        }

        /// Tells where the copy lies: destination page and offset, source page and offset.
        fn sample(&mut self, copy: Copy<'_>) -> Result<u64, PathError> {
            let spot = |spot: Spot| spot.page * 0x10_000 + u64::from(spot.offset);
            Ok(spot(copy.to) << 32 | spot(copy.from))
        }
    }

    /// A pool without memory.
    struct Empty;

    impl Pool for Empty {
        fn allocator(&self) -> Allocator {
            Allocator::Glibc
        }

        fn pages(&self, _: usize) -> u64 {
            64
        }

        fn buffer(&mut self, _: u64, _: u16, _: usize) -> &mut [u8] {
            &mut []
        }

        fn memory(&mut self) -> &mut [u8] {
            &mut []
        }
    }

    struct Stopped;

    impl Clock for Stopped {
        fn precision_ns(&self) -> u64 {
            1
        }

        fn chain_ns(&mut self) -> u64 {
            1
        }
    }

    fn machine() -> Machine {
        let path = |name, pages| Box::new(Narrow { name, pages }) as Box<dyn CopyPath>;
        Machine {
            pools: vec![Box::new(Empty)],
            paths: vec![
                path(PathName::Read, None),
                path(PathName::PipeWrite, Some(10)),
                path(PathName::PipeRead, Some(10)),
            ],
            clock: Box::new(Stopped),
            source_size: 5 * 4096,
        }
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
            let kind = Kind { len: 1, repeat: 1, side: name.own_scan(), first_touch: false };
            let job = Job { slot: 0, dst: 0xd, src: 0x5, pool: 0, second_page: false, kind: 0 };
            let pages = Pages { pools: vec![[7, 9]], own: 3 };
            let mut ns = [0];
            machine.take_all(path, &[job], &[kind], &pages, &mut ns).unwrap();
            assert_eq!(machine.take(path, &job, &kind, &pages).unwrap(), ns[0]);
            ns[0]
        };
        assert_eq!(taken(PathName::PipeRead), 0x7_000d << 32 | 0x3_0005);
        assert_eq!(taken(PathName::PipeWrite), 0x3_000d << 32 | 0x7_0005);
    }
}
