//! BPF programs: compiled objects, maps, programs, links and iterators, without other libraries.
//!
//! An [`Object`] is data. [`Map::create`] makes the maps that it defines, a [`Loader`] loads its programs over them, and a
//! [`Link`] attaches a program to a cgroup. Everything can be pinned, and then outlives the process.

pub mod batch;
mod btf;
mod call;
mod elf;
pub mod hook;
pub mod instruction;
mod iterator;
pub mod link;
pub mod map;
pub mod object;
mod patience;
mod program;

pub use crate::system::cgroup::{Cgroup, find_cgroup2, is_bpf_file_system, mount_bpf_file_system};
pub use crate::system::cookie::network_namespace_cookie;
pub use batch::Entries;
pub use btf::KernelTypes;
pub use call::{Spent, spent};
pub use elf::InvalidObject;
pub use hook::Hook;
pub use instruction::Instruction;
pub use iterator::SocketIterator;
pub use link::{Attachment, Link, LinkInfo};
pub use map::{Map, MapInfo, possible_cpus};
pub use object::{Code, Constant, MapDefinition, Object, Reference};
pub use program::{Loader, Program, ProgramInfo};

/// The hooks of sockets: `bpf/sock.bpf.c`.
pub const SOCKET_HOOKS: &[u8] = include_bytes!("../../../../bpf/sock.bpf.o");
/// Ends connected sockets of UDP: `bpf/end.bpf.c`.
pub const END_UDP: &[u8] = include_bytes!("../../../../bpf/end.bpf.o");
