//! Objects that an ipvs mode leaves besides iptables chains, ours or kube-proxy's: a device with Service addresses,
//! virtual servers and IP sets.

use std::fmt;

use portolan_kernel::ipset::{self, IpSets};
use portolan_kernel::links;
use portolan_model::Family;

use super::virtual_servers;
use super::{DEVICE, NAME, SetKind, SetName};
use crate::place::{Connections, Found, Outcome, Owned, Place, RemovalError, Report, Users};

pub(super) struct VirtualServers;

impl fmt::Display for VirtualServers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("objects of ipvs mode")
    }
}

impl Place for VirtualServers {
    fn mode(&self) -> &'static str {
        NAME
    }

    fn users(&self) -> Users {
        Users::Both
    }

    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>> {
        if owned.is_some_and(|owned| owned.mode == NAME) {
            return Ok(None);
        }
        let device = links::link_exists(DEVICE).map_err(looking)?;
        Ok(Found::new(usize::from(device) + sets()?.len(), device))
    }

    /// kube-proxy has no set of this name.
    fn is_ours(&self) -> Outcome<bool> {
        let own = SetName { family: Family::V4, kind: SetKind::NoLocalEndpoints };
        IpSets::open().and_then(|mut sets| sets.exists(&own.to_string())).map_err(looking)
    }

    /// The sets identify the virtual servers of a proxy, so they are removed last.
    fn remove(&self, _: Option<&Owned>, connections: Connections, report: &mut Report) -> Outcome<()> {
        report.removed.extend(remove_servers(connections)?);
        remove_sets(&sets()?, report)
    }

    fn is_busy(&self) -> bool {
        virtual_servers::of_services().is_ok_and(|servers| servers.connections > 0)
    }

    /// The device does not show which families kube-proxy has programmed.
    fn serves(&self, _: Family) -> bool {
        false
    }
}

fn looking(error: impl fmt::Display) -> RemovalError {
    RemovalError::new("looking for objects of ipvs mode", error)
}

fn sets() -> Outcome<Vec<String>> {
    let mut sets = IpSets::open().map_err(looking)?;
    let mut found = Vec::new();
    for name in SetName::all().map(|name| name.to_string()) {
        if sets.exists(&name).map_err(looking)? {
            found.push(name);
        }
    }
    Ok(found)
}

/// A connection through IPVS lasts only as long as its virtual server and address. Both stay until the last connection
/// has ended, unless connections may be cut. The caller retries.
fn remove_servers(open: Connections) -> Outcome<Vec<String>> {
    let servers = virtual_servers::of_services()?;
    let busy = servers.connections;
    if busy > 0 && open == Connections::Keep {
        let reason = format!("IPVS still has {busy} connections; the device stays until they have ended");
        return Err(RemovalError::new(format!("removing {DEVICE}"), reason));
    }
    let mut removed = virtual_servers::remove(servers)?;
    if links::delete_link(DEVICE).map_err(|error| RemovalError::new(format!("removing {DEVICE}"), error))? {
        removed.push(format!("interface {DEVICE}"));
    }
    Ok(removed)
}

/// A set that is still in use does not stop the removal of the others.
fn remove_sets(names: &[String], report: &mut Report) -> Outcome<()> {
    let mut sets = IpSets::open().map_err(|error| RemovalError::new("removing IP sets", error))?;
    for name in names {
        let failed = |reason: &dyn fmt::Display| RemovalError::new(format!("removing IP set {name}"), reason);
        match sets.destroy(name) {
            Ok(_) => report.removed.push(format!("IP set {name}")),
            Err(error) if ipset::is_in_use(&error) => report.failed.push(failed(&"a rule still refers to it")),
            Err(error) => report.failed.push(failed(&error)),
        }
    }
    Ok(())
}
