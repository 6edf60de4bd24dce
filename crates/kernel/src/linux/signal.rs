//! Termination signals as a blocking read, so that no code runs in a signal handler.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// SIGTERM, or SIGHUP where that is waited for
    Terminate,
    /// SIGINT
    Interrupt,
}

/// The termination signals that are sent to this process from now on.
pub struct TerminationSignals {
    descriptor: OwnedFd,
}

/// Blocks SIGTERM and SIGINT. Must be called before any thread is started, because threads inherit the signal mask.
pub fn block_termination_signals() -> io::Result<TerminationSignals> {
    block(&[libc::SIGTERM, libc::SIGINT])
}

/// The same with SIGHUP, which the kernel sends when a terminal is closed.
pub fn block_terminal_signals() -> io::Result<TerminationSignals> {
    block(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
}

fn block(numbers: &[libc::c_int]) -> io::Result<TerminationSignals> {
    let signals = set_of(numbers);
    // SAFETY: `signals` is initialised, and the old mask is not requested.
    let outcome = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()) };
    if outcome != 0 {
        return Err(io::Error::from_raw_os_error(outcome));
    }
    // SAFETY: `signals` is initialised; a non-negative descriptor is new and ours.
    unsafe {
        match libc::signalfd(-1, &raw const signals, libc::SFD_CLOEXEC) {
            descriptor if descriptor >= 0 => Ok(TerminationSignals { descriptor: OwnedFd::from_raw_fd(descriptor) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl TerminationSignals {
    /// Waits for the next signal.
    pub fn wait(&self) -> Signal {
        loop {
            match self.read() {
                Ok(libc::SIGINT) => return Signal::Interrupt,
                Ok(_) => return Signal::Terminate,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    panic!("reading a signal failed: {error}")
                }
            }
        }
    }

    fn read(&self) -> io::Result<i32> {
        let mut signal = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let length = size_of::<libc::signalfd_siginfo>();
        let descriptor = self.descriptor.as_raw_fd();
        // SAFETY: the pointer and the length describe a live value that is ours alone.
        if unsafe { libc::read(descriptor, signal.as_mut_ptr().cast(), length) } < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it consists of plain numbers, and was zero before the kernel wrote to it.
        let signal = unsafe { signal.assume_init() };
        Ok(signal.ssi_signo.cast_signed())
    }
}

impl AsFd for TerminationSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn set_of(numbers: &[libc::c_int]) -> libc::sigset_t {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the set, and the signal numbers exist.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for number in numbers {
            libc::sigaddset(signals.as_mut_ptr(), *number);
        }
        signals.assume_init()
    }
}
