//! The memory of this process.

use std::io;

use super::usage;

/// The allocator of Windows returns memory by itself.
pub fn release_unused_memory() {}

/// All threads share one heap on Windows.
pub fn share_one_heap() {}

/// `None`: the allocator of Windows does not count what is allocated.
pub fn heap_bytes() -> Option<u64> {
    None
}

/// The resident memory of this process: its working set.
pub fn resident_bytes() -> io::Result<u64> {
    usage::memory().map(|memory| memory.WorkingSetSize as u64)
}
