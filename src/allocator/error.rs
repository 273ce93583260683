//! Why there is no buffer.

use crate::report::Allocator;
use crate::sys;
use std::io;

/// Why an allocator gave no buffer.
#[derive(Debug, thiserror::Error)]
pub enum AllocatorError {
    /// There is less memory than the buffer needs; nothing was allocated.
    #[error(
        "not enough memory for the buffers, from {allocator} on: {} MiB needed and some to work with, {} MiB left by {bound} \
         (use a shorter --len or fewer --allocators)",
        needed.div_ceil(1 << 20), left >> 20
    )]
    Memory {
        /// The allocator.
        allocator: Allocator,
        /// Bytes needed by its buffers and those still to be opened.
        needed: u64,
        /// Bytes left.
        left: u64,
        /// What sets the bound.
        bound: &'static str,
    },
    /// The allocator returned nothing.
    #[error(
        "{allocator} gave no buffer of {} MiB: {} (use a shorter --len or fewer --allocators)",
        needed.div_ceil(1 << 20), sys::reason(reason)
    )]
    Refused {
        /// The allocator.
        allocator: Allocator,
        /// Bytes asked for.
        needed: u64,
        /// The system's reason.
        reason: io::Error,
    },
    /// This allocator is not in this process.
    #[error("{allocator} cannot be measured: {reason}")]
    Absent {
        /// The allocator.
        allocator: Allocator,
        /// The reason.
        reason: String,
    },
    /// Too few huge pages are reserved.
    #[error(
        "no reserved huge pages for a buffer: {} (reserve them with: sysctl vm.nr_hugepages={count}, \
         or use --pages thp)",
        sys::reason(reason)
    )]
    NotReserved {
        /// Pages needed.
        count: u64,
        /// The system's reason.
        reason: io::Error,
    },
    /// The kernel refuses what `--pages` or `--first-touch` asks for.
    #[error("the kernel refuses {what} for memory of {allocator}: {}", sys::reason(reason))]
    Advice {
        /// The allocator.
        allocator: Allocator,
        /// The option.
        what: &'static str,
        /// The system's reason.
        reason: io::Error,
    },
    /// The options do not go together.
    #[error("{0}")]
    Options(&'static str),
}
