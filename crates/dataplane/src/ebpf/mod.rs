//! ebpf mode: sockets are translated when they connect, by programs on hooks of cgroups.

pub mod machine;
