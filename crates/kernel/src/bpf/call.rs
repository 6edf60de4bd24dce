//! The system call bpf(2), and what each command reads and writes.

use crate::system::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use crate::system::{self, libc};
use std::cell::Cell;
use std::ffi::CString;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::error::Error;

/// The commands, by their number in the kernel's interface.
#[derive(Clone, Copy)]
pub(super) enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    Pin = 6,
    OpenPinned = 7,
    Info = 15,
    BtfLoad = 18,
    MapFreeze = 22,
    MapLookupBatch = 24,
    MapUpdateBatch = 26,
    MapDeleteBatch = 27,
    LinkCreate = 28,
    LinkUpdate = 29,
    IteratorCreate = 33,
    LinkDetach = 34,
}

/// The calls of bpf(2) by one thread, for benchmarks.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spent {
    pub calls: u32,
    pub time: Duration,
}

thread_local! {
    static SPENT: Cell<Spent> = const { Cell::new(Spent { calls: 0, time: Duration::ZERO }) };
}

/// What the calling thread has spent since it started.
pub fn spent() -> Spent {
    SPENT.get()
}

fn add_since(start: Instant) {
    let before = spent();
    SPENT.set(Spent { calls: before.calls + 1, time: before.time + start.elapsed() });
}

/// The bytes of `union bpf_attr` that any of the commands uses, in words so that the kernel finds them aligned.
const WORDS: usize = 16;

/// The arguments of a command: numbers and pointers at the offsets of `union bpf_attr`. All other bytes are zero; kernels
/// before 6.12 refuse a command whose padding is not.
///
/// Every buffer is borrowed until the call. A caller gives buffers of the sizes that the kernel derives from the command,
/// the map and the numbers.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    words: [u64; WORDS],
    buffers: PhantomData<&'a mut [u8]>,
}

impl<'a> Arguments<'a> {
    pub(super) fn number(mut self, offset: usize, value: u32) -> Self {
        let word = &mut self.words[offset / 8];
        let shift = offset % 8 * 8;
        *word = *word & !(0xffff_ffff << shift) | u64::from(value) << shift;
        self
    }

    pub(super) fn descriptor(self, offset: usize, descriptor: BorrowedFd<'_>) -> Self {
        self.number(offset, descriptor.as_raw_fd().cast_unsigned())
    }

    pub(super) fn long(mut self, offset: usize, value: u64) -> Self {
        self.words[offset / 8] = value;
        self
    }

    /// A buffer that the kernel reads.
    pub(super) fn input(self, offset: usize, bytes: &'a [u8]) -> Self {
        self.long(offset, bytes.as_ptr().addr() as u64)
    }

    /// A buffer that the kernel writes.
    pub(super) fn output(self, offset: usize, bytes: &'a mut [u8]) -> Self {
        self.long(offset, bytes.as_mut_ptr().expose_provenance() as u64)
    }

    /// At most 15 bytes of a name, at an offset that need not be aligned to words.
    pub(super) fn name(mut self, offset: usize, name: &str) -> Self {
        for (index, byte) in name.bytes().take(15).enumerate() {
            let at = offset + index;
            self.words[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        self
    }

    /// A number that the kernel has written.
    pub(super) fn read(&self, offset: usize) -> u32 {
        (self.words[offset / 8] >> (offset % 8 * 8)) as u32
    }

    /// Performs the command.
    pub(super) fn call(&mut self, command: Command) -> io::Result<RawFd> {
        let start = Instant::now();
        // SAFETY: the words are those of `union bpf_attr`. The buffers that they point to live as long as `self`, and have the
        // sizes that the command reads or writes.
        let outcome = unsafe { system::bpf_call(command as u32, &mut self.words) };
        add_since(start);
        outcome
    }

    /// Performs a command that returns a new file descriptor.
    pub(super) fn open(&mut self, command: Command) -> io::Result<OwnedFd> {
        let descriptor = self.call(command)?;
        // SAFETY: the kernel has just opened it for this call.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

/// Pins a map, program or link at a path of a BPF file system.
pub(super) fn pin(descriptor: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    Arguments::default().input(0, path.as_bytes_with_nul()).descriptor(8, descriptor).call(Command::Pin).map(drop)
}

pub(super) fn open_pinned(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())?;
    Arguments::default().input(0, path.as_bytes_with_nul()).open(Command::OpenPinned)
}

/// Fills the information about a map, program or link; what the kernel does not know stays zero.
pub(super) fn information<const LENGTH: usize>(descriptor: BorrowedFd<'_>) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    let length = u32::try_from(LENGTH).map_err(io::Error::other)?;
    let arguments = Arguments::default().descriptor(0, descriptor).number(4, length);
    arguments.output(8, &mut bytes).call(Command::Info)?;
    Ok(bytes)
}

/// The number at this offset of what the kernel has written.
pub(super) fn number_at(bytes: &[u8], offset: usize) -> u32 {
    bytes.get(offset..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

/// An error of bpf(2), with what is usually missing.
pub(super) fn failed(attempted: impl Into<String>, source: io::Error) -> Error {
    let mut attempted = attempted.into();
    if source.raw_os_error() == Some(libc::EPERM) {
        attempted.push_str(" (needs the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)");
    }
    Error::io(attempted, source)
}

/// A call that is not made, because of its arguments or of what the kernel lacks.
pub(super) fn impossible(attempted: impl Into<String>, kind: io::ErrorKind, reason: impl Into<String>) -> Error {
    Error::io(attempted, io::Error::new(kind, reason.into()))
}
