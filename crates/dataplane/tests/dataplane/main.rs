//! The modes in the real kernel, through random histories of a cluster, and their counters.

mod affinity;
mod flows;
mod histories;
#[path = "../../../plan/tests/history/mod.rs"]
mod history;
mod hns;
mod hns_objects;
mod hns_versions;
mod hooks;
mod iptables_kernel;
mod ipvs_schedulers;
mod kernels;
mod nftables_kernel;
mod nftables_restart;
mod play;
#[path = "../../../portolan/tests/daemon/poll.rs"]
mod poll;
mod traffic;
mod userspace_kernel;
mod world;
