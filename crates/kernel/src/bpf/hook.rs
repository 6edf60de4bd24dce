//! The places of the kernel where programs are attached.

use std::fmt;

/// `BPF_PROG_TYPE_…`
const SOCKET_OPERATIONS: u32 = 13;
const SOCKET_ADDRESS: u32 = 18;
const TRACING: u32 = 26;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hook {
    Connect4,
    Connect6,
    SendMessage4,
    SendMessage6,
    ReceiveMessage4,
    ReceiveMessage6,
    PeerName4,
    PeerName6,
    /// Events of TCP sockets.
    SocketOperations,
    /// Each UDP socket of a network namespace.
    IterateUdp,
}

impl Hook {
    pub const ALL: [Self; 10] = [
        Self::Connect4,
        Self::Connect6,
        Self::SendMessage4,
        Self::SendMessage6,
        Self::ReceiveMessage4,
        Self::ReceiveMessage6,
        Self::PeerName4,
        Self::PeerName6,
        Self::SocketOperations,
        Self::IterateUdp,
    ];

    /// The hook that a section of an object is named after.
    pub fn of_section(section: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.section() == section)
    }

    pub fn section(self) -> &'static str {
        match self {
            Self::Connect4 => "cgroup/connect4",
            Self::Connect6 => "cgroup/connect6",
            Self::SendMessage4 => "cgroup/sendmsg4",
            Self::SendMessage6 => "cgroup/sendmsg6",
            Self::ReceiveMessage4 => "cgroup/recvmsg4",
            Self::ReceiveMessage6 => "cgroup/recvmsg6",
            Self::PeerName4 => "cgroup/getpeername4",
            Self::PeerName6 => "cgroup/getpeername6",
            Self::SocketOperations => "sockops",
            Self::IterateUdp => "iter/udp",
        }
    }

    /// `enum bpf_attach_type`.
    pub fn attach_type(self) -> u32 {
        match self {
            Self::SocketOperations => 3,
            Self::Connect4 => 10,
            Self::Connect6 => 11,
            Self::SendMessage4 => 14,
            Self::SendMessage6 => 15,
            Self::ReceiveMessage4 => 19,
            Self::ReceiveMessage6 => 20,
            Self::IterateUdp => 28,
            Self::PeerName4 => 29,
            Self::PeerName6 => 30,
        }
    }

    /// `enum bpf_prog_type`.
    pub(super) fn program_type(self) -> u32 {
        match self {
            Self::SocketOperations => SOCKET_OPERATIONS,
            Self::IterateUdp => TRACING,
            _ => SOCKET_ADDRESS,
        }
    }

    /// The kernel function that stands for an iterator.
    pub(super) fn kernel_function(self) -> Option<&'static str> {
        (self == Self::IterateUdp).then_some("bpf_iter_udp")
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.section())
    }
}
