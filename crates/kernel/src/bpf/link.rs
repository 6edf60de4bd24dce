//! Programs attached to a cgroup. A link holds for as long as it is open or pinned.

use crate::system::fd::{AsFd, BorrowedFd, OwnedFd};
use crate::system::libc;
use std::path::Path;

use super::call::{self, Arguments, Command, failed, number_at};
use super::program::Program;
use crate::error::Result;

/// `BPF_LINK_TYPE_CGROUP`
const OF_CGROUP: u32 = 3;

/// An attached program.
pub struct Link {
    descriptor: OwnedFd,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkInfo {
    pub id: u32,
    pub program: u32,
    /// `enum bpf_attach_type`, and the cgroup; `None` if it is attached to something else.
    pub attached: Option<Attachment>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attachment {
    pub attach_type: u32,
    /// Zero after the link was detached, or its cgroup removed.
    pub cgroup: u64,
}

impl Link {
    /// Attaches the program to its hook, for all processes of the cgroup and those below it.
    pub fn attach(program: &Program, cgroup: BorrowedFd<'_>) -> Result<Self> {
        let arguments = Arguments::default().descriptor(0, program.as_fd()).descriptor(4, cgroup);
        let mut arguments = arguments.number(8, program.hook().attach_type());
        let attempted = || format!("attaching the BPF program {} to a cgroup", program.name());
        let descriptor = arguments.open(Command::LinkCreate).map_err(|error| failed(attempted(), error))?;
        Ok(Self { descriptor })
    }

    /// Replaces the program. No event is missed between the old and the new one.
    pub fn update(&self, program: &Program) -> Result<()> {
        let mut arguments = Arguments::default().descriptor(0, self.as_fd()).descriptor(4, program.as_fd());
        let attempted = || format!("replacing the attached BPF program {}", program.name());
        arguments.call(Command::LinkUpdate).map(drop).map_err(|error| failed(attempted(), error))
    }

    /// Opens a pinned link; `None` if there is none.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match call::open_pinned(path) {
            Ok(descriptor) => Ok(Some(Self { descriptor })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed(format!("opening the BPF link {}", path.display()), error)),
        }
    }

    pub fn pin(&self, path: &Path) -> Result<()> {
        let attempted = || format!("pinning a BPF link at {}", path.display());
        call::pin(self.as_fd(), path).map_err(|error| failed(attempted(), error))
    }

    /// Detaches the program at once, also where others hold the link. Removing the last pin detaches it a moment later.
    pub fn detach(&self) -> Result<()> {
        let mut arguments = Arguments::default().descriptor(0, self.as_fd());
        arguments.call(Command::LinkDetach).map(drop).map_err(|error| failed("detaching a BPF link", error))
    }

    /// From `struct bpf_link_info`.
    pub fn info(&self) -> Result<LinkInfo> {
        let bytes: [u8; 48] = call::information(self.as_fd()).map_err(|error| failed("reading a BPF link", error))?;
        let cgroup = u64::from(number_at(&bytes, 20)) << 32 | u64::from(number_at(&bytes, 16));
        let attachment = Attachment { attach_type: number_at(&bytes, 24), cgroup };
        Ok(LinkInfo {
            id: number_at(&bytes, 4),
            program: number_at(&bytes, 8),
            attached: (number_at(&bytes, 0) == OF_CGROUP).then_some(attachment),
        })
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
