//! Foreign changes of what this mode keeps outside of the tables of iptables. Neither IP sets nor IPVS send notifications,
//! so their sizes are compared.

use std::net::IpAddr;

use portolan_kernel::addresses::interface_addresses;
use portolan_kernel::ipset::IpSets;
use portolan_kernel::ipvs::Tally;
use portolan_kernel::links::link_exists;
use portolan_model::IpNet;

use super::objects::{Key, Server};
use super::sets::SetName;
use super::{DEVICE, Ipvs};
use crate::drift::{CountWatch, Counts, ForeignChange, WatchForeignChanges};
use crate::{Change, Error};

const SERVERS: &str = "the virtual servers";
const DESTINATIONS: &str = "the destinations of virtual servers";
const ADDRESSES: &str = "the addresses of kube-ipvs0";

pub(super) struct IpvsWatch {
    pub(super) tables: Box<dyn WatchForeignChanges>,
    pub(super) counts: CountWatch<fn() -> Result<Counts, Error>>,
}

impl WatchForeignChanges for IpvsWatch {
    fn wait(&mut self) -> Result<Option<ForeignChange>, Error> {
        match self.tables.wait()? {
            Some(what) => Ok(Some(what)),
            None => self.counts.check(),
        }
    }
}

/// The numbers of objects in the kernel, foreign virtual servers among them.
pub(super) fn counts() -> Result<Counts, Error> {
    let sizes = IpSets::open()?.sizes()?;
    let tally = Tally::read()?;
    let of_set = |name: SetName| {
        let size = sizes.get(&name.to_string())?;
        Some((counted_set(name), 1 + i64::from(*size)))
    };
    let mut counts: Counts = SetName::all().filter_map(of_set).collect();
    counts.insert(SERVERS.into(), number(tally.servers));
    counts.insert(DESTINATIONS.into(), number(tally.active_destinations));
    counts.insert(ADDRESSES.into(), addresses()?);
    Ok(counts)
}

/// The device itself counts as one.
fn addresses() -> Result<i64, Error> {
    if !link_exists(DEVICE)? {
        return Ok(0);
    }
    let own = interface_addresses()?.into_iter().filter(|it| it.name == DEVICE && !is_link_local(it.address));
    Ok(1 + number(own.count()))
}

/// The kernel adds a link-local address when the device is brought up.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

/// By how much a change of objects changes those numbers.
pub(super) fn count_changes(change: &Change<Ipvs>, excluded: &[IpNet]) -> Vec<(String, i64)> {
    let Change { removed, added } = change;
    let is_kept =
        |server: &Server| is_excluded(server.address.ip(), excluded) && !added.contains_key(&Key::Server(*server));
    let leaves = |key: &&Key| match key {
        Key::Server(server) => !is_kept(server),
        Key::Destination(server, _) => !(is_kept(server) && removed.contains_key(&Key::Server(*server))),
        _ => true,
    };
    let minus = removed.keys().filter(leaves).filter_map(counted).map(|what| (what, -1));
    minus.chain(added.keys().filter_map(counted).map(|what| (what, 1))).collect()
}

/// Where an object is counted. Rules have their own watch.
fn counted(key: &Key) -> Option<String> {
    match key {
        Key::Rules(_) => None,
        Key::Set(name) | Key::Entry(name, _) => Some(counted_set(*name)),
        Key::Server(_) => Some(SERVERS.into()),
        Key::Destination(..) => Some(DESTINATIONS.into()),
        Key::Device | Key::Address(_) => Some(ADDRESSES.into()),
    }
}

fn counted_set(name: SetName) -> String {
    format!("the IP set {name}")
}

fn is_excluded(address: IpAddr, excluded: &[IpNet]) -> bool {
    excluded.iter().any(|range| range.contains(&address))
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
