//! The memory of this process.

use std::{fs, io};

/// Returns freed memory to the system. The allocator of glibc would keep the memory of a large batch; others return
/// it by themselves.
pub fn release_unused_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes all threads share one heap. The allocator of glibc gives each thread its own arena, with its own
/// fragmentation; here only one thread allocates much, so that there is no contention. Must be called before threads
/// are started.
pub fn share_one_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers, and sets a limit that the allocator reads when a thread first allocates.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// The bytes that the program has allocated and not freed; `None` with an allocator that does not count them. What is resident
/// beyond them is free memory between them, or pages of files.
pub fn heap_bytes() -> Option<u64> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: takes no pointers, and returns numbers.
        let counts = unsafe { libc::mallinfo2() };
        Some((counts.uordblks + counts.hblkhd) as u64)
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// The resident memory of this process.
pub fn resident_bytes() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    parse_resident_bytes(&status).ok_or_else(|| {
        let reason = "/proc/self/status has no VmRSS line in kB";
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

fn parse_resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_the_status_file() {
        let status = "Name:\tportolan\nVmRSS:\t    5120 kB\nRssAnon:\t 1 kB\n";
        assert_eq!(parse_resident_bytes(status), Some(5120 * 1024));
        assert_eq!(parse_resident_bytes("Name:\tportolan\n"), None);
    }

    #[test]
    fn this_process_has_memory_before_and_after_a_release() {
        assert!(resident_bytes().unwrap() > 0);
        release_unused_memory();
        assert!(resident_bytes().unwrap() > 0);
    }
}
