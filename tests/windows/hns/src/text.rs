//! Between the texts of Windows and those of Rust.

use windows_sys::Win32::System::Com::CoTaskMemAlloc;
use windows_sys::core::{GUID, PCWSTR, PWSTR};

/// # Safety
///
/// The pointer is null, or leads to a text with its terminating zero.
pub(crate) unsafe fn read(pointer: PCWSTR) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let units = unsafe {
        let length = (0..).take_while(|index| *pointer.add(*index) != 0).count();
        std::slice::from_raw_parts(pointer, length)
    };
    String::from_utf16_lossy(units)
}

/// The caller frees it with `CoTaskMemFree`.
///
/// # Safety
///
/// The pointer is null, or leads to a place for a pointer.
pub(crate) unsafe fn give(text: &str, to: *mut PWSTR) {
    if to.is_null() {
        return;
    }
    let units: Vec<u16> = text.encode_utf16().chain([0]).collect();
    // SAFETY: the allocation has room for all units, or is null.
    unsafe {
        let place = CoTaskMemAlloc(units.len() * 2).cast::<u16>();
        if !place.is_null() {
            std::ptr::copy_nonoverlapping(units.as_ptr(), place, units.len());
        }
        *to = place;
    }
}

/// An identity as its text has it.
///
/// # Safety
///
/// The pointer is null, or leads to an identity.
pub(crate) unsafe fn identity(pointer: *const GUID) -> portolan_hns::Guid {
    // SAFETY: the caller's promise.
    let Some(guid) = (unsafe { pointer.as_ref() }) else { return portolan_hns::Guid::default() };
    let tail: String = guid.data4.iter().map(|byte| format!("{byte:02x}")).collect();
    let text = format!("{:08x}{:04x}{:04x}{tail}", guid.data1, guid.data2, guid.data3);
    text.parse().unwrap_or_default()
}
