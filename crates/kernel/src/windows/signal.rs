//! Requests to end: Ctrl+C, the console's window, a shutdown, and the service control manager.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    Terminate,
    Interrupt,
}

static REQUESTED: Mutex<Option<Signal>> = Mutex::new(None);
static ARRIVED: Condvar = Condvar::new();

/// The requests that are made to this process from now on.
pub struct TerminationSignals {}

/// Named as on Linux: from now on such a request is waited for instead of ending the process.
pub fn block_termination_signals() -> io::Result<TerminationSignals> {
    // SAFETY: the handler is a function, and stays valid for as long as the process runs.
    match unsafe { SetConsoleCtrlHandler(Some(handle), 1) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(TerminationSignals {}),
    }
}

/// The same: a console that is closed is among the requests.
pub fn block_terminal_signals() -> io::Result<TerminationSignals> {
    block_termination_signals()
}

/// Windows calls this on a thread of its own. It ends the process when the handler of a closed console returns, after five
/// seconds at the latest.
unsafe extern "system" fn handle(event: u32) -> BOOL {
    let is_interrupt = matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT);
    request_end(if is_interrupt { Signal::Interrupt } else { Signal::Terminate });
    1
}

/// A request from within the process.
pub fn request_end(signal: Signal) {
    *REQUESTED.lock().unwrap_or_else(PoisonError::into_inner) = Some(signal);
    ARRIVED.notify_all();
}

impl TerminationSignals {
    /// Waits for the next request.
    pub fn wait(&self) -> Signal {
        let mut requested = REQUESTED.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(signal) = requested.take() {
                return signal;
            }
            requested = ARRIVED.wait(requested).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
