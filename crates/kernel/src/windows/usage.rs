//! What this process uses of the machine.

use std::io;
use std::time::Duration;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, GetProcessHandleCount, GetProcessTimes};

use super::processor::duration;

/// The seconds between 1601, where times of Windows begin, and 1970.
const BEFORE_1970: Duration = Duration::from_secs(11_644_473_600);

pub struct Usage {
    pub processor: Duration,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub handles: u32,
    /// Since 1970.
    pub started: Duration,
}

impl Usage {
    pub fn read() -> io::Result<Self> {
        let (started, processor) = times()?;
        let memory = memory()?;
        let (resident_bytes, virtual_bytes) = (memory.WorkingSetSize as u64, memory.PagefileUsage as u64);
        Ok(Self { processor, resident_bytes, virtual_bytes, handles: handles()?, started })
    }
}

pub(super) fn memory() -> io::Result<PROCESS_MEMORY_COUNTERS> {
    let size = size_of::<PROCESS_MEMORY_COUNTERS>() as u32;
    let mut counters = PROCESS_MEMORY_COUNTERS { cb: size, ..Default::default() };
    // SAFETY: the handle of this process needs no closing, and the structure has the size that is given.
    match unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), &raw mut counters, size) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(counters),
    }
}

fn handles() -> io::Result<u32> {
    let mut count = 0;
    // SAFETY: the pointer is to a live value.
    match unsafe { GetProcessHandleCount(GetCurrentProcess(), &raw mut count) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(count),
    }
}

/// When the process was started, and the processor time that it has used.
fn times() -> io::Result<(Duration, Duration)> {
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle of this process needs no closing, and the pointers are to live values.
    let outcome = unsafe {
        GetProcessTimes(GetCurrentProcess(), &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user)
    };
    match outcome {
        0 => Err(io::Error::last_os_error()),
        _ => Ok((duration(created).saturating_sub(BEFORE_1970), duration(kernel) + duration(user))),
    }
}
