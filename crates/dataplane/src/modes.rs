//! The registry of modes.

use portolan_kernel::IS_LINUX;

use crate::connections;
use crate::mode::Mode;
use crate::place::Place;
use crate::{ebpf, iptables, ipvs, kernelspace, nftables, userspace};

/// All modes, the default of each operating system before the others for it.
pub static ALL: &[&dyn Mode] =
    &[&nftables::MODE, &iptables::MODE, &ipvs::MODE, &userspace::MODE, &ebpf::MODE, &kernelspace::MODE];

/// Serves while no daemon runs, after a mode whose daemon carries connections.
pub static STAND_IN: &dyn Mode = &iptables::MODE;

/// Used where no mode is configured, or one that this machine cannot run.
pub fn default() -> &'static dyn Mode {
    of_this_system().next().unwrap_or(ALL[0])
}

/// The modes that nodes with the operating system of this machine can run.
pub fn of_this_system() -> impl Iterator<Item = &'static dyn Mode> {
    ALL.iter().copied().filter(|mode| mode.system() == std::env::consts::OS)
}

pub fn named(name: &str) -> Option<&'static dyn Mode> {
    ALL.iter().copied().find(|mode| mode.name() == name || mode.aliases().contains(&name))
}

/// Interfaces that hold Service addresses.
pub fn devices() -> impl Iterator<Item = &'static str> {
    of_this_system().flat_map(|mode| mode.devices().iter().copied())
}

/// Where service proxies keep objects, ours and kube-proxy's, in the order of removal.
pub(crate) fn places() -> impl Iterator<Item = Box<dyn Place>> {
    let of_connections = IS_LINUX.then(connections::places).into_iter().flatten();
    of_this_system().flat_map(|mode| mode.places()).chain(of_connections)
}
