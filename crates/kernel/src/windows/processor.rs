//! The processor time of this process.

use std::time::Duration;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{GetCurrentThread, GetThreadTimes};

/// The processor time that the calling thread has used. It does not pass while the thread waits.
pub fn thread_cpu_time() -> Duration {
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle of this thread needs no closing, and the pointers are to live values.
    let outcome =
        unsafe { GetThreadTimes(GetCurrentThread(), &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user) };
    assert_ne!(outcome, 0, "every thread has these times");
    duration(kernel) + duration(user)
}

/// A `FILETIME` counts units of 100 nanoseconds.
pub(super) fn duration(time: FILETIME) -> Duration {
    let units = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
    Duration::from_nanos(units.saturating_mul(100))
}
