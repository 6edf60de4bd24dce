//! A process that the service control manager of Windows starts and ends.

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use windows_sys::Win32::System::Services::{
    RegisterServiceCtrlHandlerW, SERVICE_ACCEPT_SHUTDOWN, SERVICE_ACCEPT_STOP, SERVICE_CONTROL_SHUTDOWN,
    SERVICE_CONTROL_STOP, SERVICE_RUNNING, SERVICE_STATUS, SERVICE_STATUS_CURRENT_STATE, SERVICE_STOP_PENDING,
    SERVICE_STOPPED, SERVICE_TABLE_ENTRYW, SERVICE_WIN32_OWN_PROCESS, SetServiceStatus, StartServiceCtrlDispatcherW,
};
use windows_sys::core::PWSTR;

use super::signal::{self, Signal};

/// What runs between start and stop. It returns the exit code.
type Body = Box<dyn FnOnce() -> u32 + Send>;

static BODY: Mutex<Option<Body>> = Mutex::new(None);
static OUTCOME: Mutex<Option<u32>> = Mutex::new(None);
/// The handle of the service, by which its state is reported.
static HANDLE: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(ptr::null_mut());
/// How long a stop may take, in milliseconds, before the manager considers the service as hung.
const PATIENCE: u32 = 30_000;

/// Runs the body as a service and returns its exit code. A stop by the manager arrives as [`Signal::Terminate`].
pub fn run(body: impl FnOnce() -> u32 + Send + 'static) -> io::Result<u32> {
    *BODY.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(body));
    // With one service in the process, its name is not regarded.
    let mut name = [0_u16];
    let entry = SERVICE_TABLE_ENTRYW { lpServiceName: name.as_mut_ptr(), lpServiceProc: Some(service_main) };
    let table = [entry, SERVICE_TABLE_ENTRYW::default()];
    // SAFETY: the table ends with an entry of nulls and lives until the call returns, which is after the service has ended.
    if unsafe { StartServiceCtrlDispatcherW(table.as_ptr()) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(OUTCOME.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or(1))
}

/// Windows calls this on a thread of its own.
unsafe extern "system" fn service_main(_count: u32, _arguments: *mut PWSTR) {
    let name = [0_u16];
    // SAFETY: the name ends with zero, and the handler is a function.
    let handle = unsafe { RegisterServiceCtrlHandlerW(name.as_ptr(), Some(control)) };
    HANDLE.store(handle, Ordering::Release);
    report(SERVICE_RUNNING, 0);
    let body = BODY.lock().unwrap_or_else(PoisonError::into_inner).take();
    let code = body.map_or(1, |body| body());
    *OUTCOME.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
    report(SERVICE_STOPPED, code);
}

unsafe extern "system" fn control(request: u32) {
    if matches!(request, SERVICE_CONTROL_STOP | SERVICE_CONTROL_SHUTDOWN) {
        report(SERVICE_STOP_PENDING, 0);
        signal::request_end(Signal::Terminate);
    }
}

fn report(state: SERVICE_STATUS_CURRENT_STATE, code: u32) {
    let is_pending = state == SERVICE_STOP_PENDING;
    let status = SERVICE_STATUS {
        dwServiceType: SERVICE_WIN32_OWN_PROCESS,
        dwCurrentState: state,
        dwControlsAccepted: if state == SERVICE_RUNNING { SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_SHUTDOWN } else { 0 },
        dwWin32ExitCode: code,
        dwServiceSpecificExitCode: 0,
        dwCheckPoint: u32::from(is_pending),
        dwWaitHint: if is_pending { PATIENCE } else { 0 },
    };
    // SAFETY: the handle is that of this service, or null, which is refused; the status is only read.
    unsafe { SetServiceStatus(HANDLE.load(Ordering::Acquire), &raw const status) };
}
