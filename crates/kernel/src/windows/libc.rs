//! The numbers of Linux that messages and codecs contain, from its headers for x86-64. They are the same in a listing that is
//! made on Windows.

pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ESRCH: i32 = 3;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSPC: i32 = 28;
pub(crate) const ENODATA: i32 = 61;
pub(crate) const ERESTART: i32 = 85;
pub(crate) const EPROTONOSUPPORT: i32 = 93;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const EAFNOSUPPORT: i32 = 97;
pub(crate) const EADDRNOTAVAIL: i32 = 99;
pub(crate) const ENOBUFS: i32 = 105;

pub(crate) const AF_UNSPEC: i32 = 0;
pub(crate) const AF_INET: i32 = 2;
pub(crate) const AF_INET6: i32 = 10;
pub(crate) const IPPROTO_TCP: i32 = 6;
pub(crate) const IPPROTO_UDP: i32 = 17;
pub(crate) const IPPROTO_SCTP: i32 = 132;

pub(crate) const SOL_SOCKET: i32 = 1;
pub(crate) const SO_SNDBUF: i32 = 7;
pub(crate) const SO_RCVBUF: i32 = 8;
pub(crate) const SO_SNDBUFFORCE: i32 = 32;
pub(crate) const SO_RCVBUFFORCE: i32 = 33;
pub(crate) const SOL_NETLINK: i32 = 270;

pub(crate) const NETLINK_ROUTE: i32 = 0;
pub(crate) const NETLINK_NETFILTER: i32 = 12;
pub(crate) const NETLINK_GENERIC: i32 = 16;
pub(crate) const NETLINK_ADD_MEMBERSHIP: i32 = 1;
pub(crate) const NETLINK_CAP_ACK: i32 = 10;
pub(crate) const NETLINK_EXT_ACK: i32 = 11;
pub(crate) const NLM_F_CREATE: i32 = 0x400;

pub(crate) const RTM_NEWLINK: u16 = 16;
pub(crate) const RTM_DELLINK: u16 = 17;
pub(crate) const RTM_GETLINK: u16 = 18;
pub(crate) const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_DELADDR: u16 = 21;
pub(crate) const RTM_GETADDR: u16 = 22;
pub(crate) const RT_SCOPE_UNIVERSE: u8 = 0;
pub(crate) const RT_SCOPE_LINK: u8 = 253;

pub(crate) const BPF_LD: u32 = 0x00;
pub(crate) const BPF_LDX: u32 = 0x01;
pub(crate) const BPF_JMP: u32 = 0x05;
pub(crate) const BPF_RET: u32 = 0x06;
pub(crate) const BPF_MISC: u32 = 0x07;
pub(crate) const BPF_W: u32 = 0x00;
pub(crate) const BPF_IMM: u32 = 0x00;
pub(crate) const BPF_ABS: u32 = 0x20;
pub(crate) const BPF_IND: u32 = 0x40;
pub(crate) const BPF_JEQ: u32 = 0x10;
pub(crate) const BPF_JSET: u32 = 0x40;
pub(crate) const BPF_K: u32 = 0x00;
pub(crate) const BPF_TAX: u32 = 0x00;
pub(crate) const SKF_AD_OFF: i32 = -0x1000;
pub(crate) const SKF_AD_NLATTR: i32 = 12;

/// One instruction of a classic BPF program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}
pub(crate) use Filter as sock_filter;
