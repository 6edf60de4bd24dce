//! The system calls on a netlink socket.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::error::{Error, Result};

/// An open and bound netlink socket.
pub(crate) struct Descriptor(OwnedFd);

impl Descriptor {
    pub(crate) fn open(protocol: i32) -> Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes no pointers; a non-negative descriptor is new and ours.
        unsafe {
            match libc::socket(libc::AF_NETLINK, kind, protocol) {
                descriptor if descriptor >= 0 => Ok(Descriptor(OwnedFd::from_raw_fd(descriptor))),
                _ => Err(Error::last("opening a netlink socket")),
            }
        }
    }

    /// Binds to a port that the kernel chooses, and returns it.
    pub(crate) fn bind(&self) -> Result<u32> {
        let descriptor = self.0.as_raw_fd();
        // SAFETY: `sockaddr_nl` is plain numbers, for which zero is a value; the pointers are to
        // live local variables, and `length` is the size of `address`.
        unsafe {
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
            let mut length = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
            let pointer = (&raw mut address).cast();
            if libc::bind(descriptor, pointer, length) != 0 {
                return Err(Error::last("binding a netlink socket"));
            }
            if libc::getsockname(descriptor, pointer, &raw mut length) != 0 {
                return Err(Error::last("reading the port of a netlink socket"));
            }
            Ok(address.nl_pid)
        }
    }

    /// Sends one datagram to the kernel.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let descriptor = self.0.as_raw_fd();
        retry_interrupted(|| {
            // SAFETY: the pointer and the length describe a live slice.
            let sent = unsafe { libc::send(descriptor, bytes.as_ptr().cast(), bytes.len(), 0) };
            outcome(sent).map(drop)
        })
    }

    /// Receives one datagram without blocking, and returns its length, which exceeds that of the buffer if it did not
    /// fit.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let descriptor = self.0.as_raw_fd();
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        retry_interrupted(|| {
            // SAFETY: the pointer and the length describe a live buffer that is ours alone.
            let received = unsafe { libc::recv(descriptor, buffer.as_mut_ptr().cast(), buffer.len(), flags) };
            outcome(received)
        })
    }

    /// Waits until something can be received, the timeout expires, or a signal arrives.
    pub(crate) fn poll(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let mut entry = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // Rounded up, so that a wait of less than a millisecond does not become a busy loop.
        let milliseconds =
            timeout.map_or(-1, |timeout| i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX));
        // SAFETY: the pointer is to one live entry.
        match unsafe { libc::poll(&raw mut entry, 1, milliseconds) } {
            -1 => Err(io::Error::last_os_error()),
            ready => Ok(ready > 0),
        }
    }

    pub(crate) fn set_option(&self, level: i32, option: i32, value: i32) -> Result<()> {
        self.set_raw_option(level, option, &value)
    }

    /// Makes the kernel drop datagrams that the classic BPF program rejects.
    pub(crate) fn attach_filter(&self, program: &[libc::sock_filter]) -> Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(program.len()).expect("a filter has a handful of instructions"),
            filter: program.as_ptr().cast_mut(),
        };
        self.set_raw_option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    pub(crate) fn option(&self, level: i32, option: i32) -> Result<usize> {
        let mut value: i32 = 0;
        let mut length = size_of::<i32>() as libc::socklen_t;
        let pointer = (&raw mut value).cast();
        let descriptor = self.0.as_raw_fd();
        // SAFETY: the pointers are to live local variables, and `length` is the size of `value`.
        match unsafe { libc::getsockopt(descriptor, level, option, pointer, &raw mut length) } {
            0 => Ok(usize::try_from(value).unwrap_or(0)),
            _ => Err(Error::last(format!("reading netlink socket option {option}"))),
        }
    }

    fn set_raw_option<T>(&self, level: i32, option: i32, value: &T) -> Result<()> {
        let pointer = std::ptr::from_ref(value).cast();
        let length = size_of::<T>() as libc::socklen_t;
        let descriptor = self.0.as_raw_fd();
        // SAFETY: the pointer and the length describe a live value that the kernel only reads.
        match unsafe { libc::setsockopt(descriptor, level, option, pointer, length) } {
            0 => Ok(()),
            _ => Err(Error::last(format!("setting netlink socket option {option}"))),
        }
    }
}

fn outcome(length: isize) -> io::Result<usize> {
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}
