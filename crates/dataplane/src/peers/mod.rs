//! What other proxies have programmed on this node: finding kube-proxy's objects of every mode, and taking exactly
//! those away once our own rules are in force.
//!
//! Connections that kube-proxy has translated go on: the kernel remembers the translation with the connection, and
//! applies it as long as any NAT chain is hooked. Ours is, by then.

mod chains;
mod ipvs;
mod legacy;
mod netfilter;
mod report;
mod takeover;
mod virtual_servers;

use std::collections::BTreeSet;
use std::fmt;

use chains::{Removal, Table};
use portolan_kernel::accounting::Accounting;
use portolan_kernel::nftables::Nftables;
use portolan_model::Family;

use crate::tables::Layout;
pub use crate::tables::Variant;
pub use report::{Report, Trouble};
pub use takeover::{Successor, Takeover};

type Doing<T> = Result<T, Trouble>;

/// One thing that kube-proxy has programmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub place: Place,
    /// How many chains, tables, sets and devices there are.
    pub objects: usize,
    /// Whether it serves at least one Service, as opposed to being an empty frame.
    pub has_services: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The table of its nftables mode.
    Nftables(Family),
    /// Chains in the tables of iptables; its ipvs mode has some there, too.
    Iptables(Variant, Family),
    /// What its ipvs mode has besides: a device, virtual servers, IP sets.
    Ipvs,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nftables(family) => write!(formatter, "table {} {}", family.nft_name(), netfilter::KUBE_PROXY),
            Self::Iptables(Variant::Nft, family) => write!(formatter, "iptables chains for {family}"),
            Self::Iptables(Variant::Legacy, family) => {
                write!(formatter, "legacy iptables chains for {family}")
            }
            Self::Ipvs => formatter.write_str("objects of ipvs mode"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "kube-proxy's {} ({})", self.place, self.objects)
    }
}

/// What was found, and what could not be looked at.
#[derive(Debug, Default)]
pub struct Detection {
    pub peers: Vec<Peer>,
    pub troubles: Vec<Trouble>,
}

pub fn detect() -> Detection {
    detect_beside(None)
}

/// Looks everywhere, in the order in which things can be removed: IP sets go after the rules that refer to them. What
/// belongs to the one who serves is not looked at.
fn detect_beside(successor: Option<Successor>) -> Detection {
    let mut detection = Detection::default();
    for place in places() {
        match look(place, successor) {
            Ok(found) => detection.peers.extend(found),
            Err(trouble) => detection.troubles.push(trouble),
        }
    }
    detection
}

fn places() -> impl Iterator<Item = Place> {
    let tables = Family::BOTH.map(Place::Nftables);
    let chains = [Variant::Nft, Variant::Legacy]
        .into_iter()
        .flat_map(|variant| Family::BOTH.map(|family| Place::Iptables(variant, family)));
    tables.into_iter().chain(chains).chain([Place::Ipvs])
}

fn look(place: Place, successor: Option<Successor>) -> Doing<Option<Peer>> {
    let trouble = |error: crate::Error| Trouble::new(format!("looking for kube-proxy's {place}"), error);
    let found = |objects, has_services| (objects > 0).then_some(Peer { place, objects, has_services });
    match place {
        Place::Ipvs if matches!(successor, Some(Successor::Ipvs(_))) => Ok(None),
        Place::Nftables(family) => {
            let mut handle = open()?;
            if !netfilter::has_table(&mut handle, family).map_err(trouble)? {
                return Ok(None);
            }
            Ok(found(1, netfilter::table_has_services(&mut handle, family).map_err(trouble)?))
        }
        Place::Iptables(Variant::Nft, family) => {
            let tables = netfilter::iptables_tables(&mut open()?, family).map_err(trouble)?;
            Ok(look_at(place, &sparing(successor, place, tables)))
        }
        Place::Iptables(Variant::Legacy, family) => {
            Ok(look_at(place, &sparing(successor, place, legacy::tables(family)?)))
        }
        Place::Ipvs => {
            let leftovers = ipvs::find()?;
            Ok(found(usize::from(leftovers.device) + leftovers.sets.len(), leftovers.device))
        }
    }
}

fn sparing<Id>(successor: Option<Successor>, place: Place, mut tables: Vec<Table<Id>>) -> Vec<Table<Id>> {
    if let Some(layout) = successor.and_then(|successor| successor.layout(place)) {
        tables.iter_mut().for_each(|table| table.spared = spared(&layout, table));
    }
    tables
}

fn spared<Id>(layout: &Layout, table: &Table<Id>) -> BTreeSet<String> {
    let Some(name) = crate::tables::Table::from_name(&table.name) else { return BTreeSet::new() };
    table.chains.iter().filter(|chain| layout.owns(name, chain)).cloned().collect()
}

/// What must stay for others' sake is not counted: it would be found forever.
fn look_at<Id: Clone>(place: Place, tables: &[Table<Id>]) -> Option<Peer> {
    let removals = tables.iter().map(Table::removal);
    let objects = removals.map(|removal| removal.chains.len() + removal.jumps.len()).sum();
    let has_services = tables.iter().any(Table::has_services);
    (objects > 0).then_some(Peer { place, objects, has_services })
}

fn open() -> Doing<Nftables> {
    Nftables::open().map_err(|error| Trouble::new("opening netlink", error))
}

/// Removes what [`detect`] found. Call it only after our own rules are committed. What fails is reported and the rest
/// goes on; calling it again later does what is left.
pub fn remove(peers: &[Peer]) -> Report {
    remove_all(peers, Connections::Keep, None)
}

/// Everything of every mode: kube-proxy's and our own. For `--cleanup`; afterwards no Service is served.
pub fn cleanup_everything() -> Report {
    let detection = detect();
    let mut report = remove_all(&detection.peers, Connections::Cut, None);
    remove_counters(&mut report);
    report.failed.extend(detection.troubles);
    match crate::nftables::cleanup() {
        Ok(count) => report.removed.extend((count > 0).then(|| format!("{count} tables of Portolan"))),
        Err(error) => report.failed.push(Trouble::new("removing the tables named portolan", error)),
    }
    report
}

/// Everything of our own, in every mode, and nothing of kube-proxy's. Chains of iptables have the same names in both; that
/// they are ours shows by those that only we have.
pub fn cleanup_own() -> Report {
    let mut report = Report::default();
    match crate::nftables::cleanup() {
        Ok(count) => {
            report.removed.extend((count > 0).then(|| format!("{count} tables named {}", crate::nftables::TABLE)));
        }
        Err(error) => report.failed.push(Trouble::new("removing the tables named portolan", error)),
    }
    for place in places() {
        let outcome = match is_ours(place) {
            Ok(true) => remove_one(place, Connections::Cut, None, &mut report),
            Ok(false) => Ok(()),
            Err(trouble) => Err(trouble),
        };
        report.failed.extend(outcome.err());
    }
    remove_counters(&mut report);
    report
}

/// Those that no rule counts into any more.
fn remove_counters(report: &mut Report) {
    let remove = || -> portolan_kernel::Result<usize> {
        let mut accounting = Accounting::open()?;
        let removed: portolan_kernel::Result<Vec<bool>> =
            crate::iptables::COUNTERS.iter().map(|name| accounting.delete(name)).collect();
        Ok(removed?.into_iter().filter(|removed| *removed).count())
    };
    match remove() {
        Ok(0) => {}
        Ok(count) => report.removed.push(format!("{count} counters of packets")),
        Err(error) => report.failed.push(Trouble::new("removing counters of packets", error)),
    }
}

/// Whether a mode of ours is programmed whose chains kube-proxy has, too.
pub fn serves_by_iptables() -> Result<bool, Trouble> {
    for place in places() {
        if is_ours(place)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_ours(place: Place) -> Doing<bool> {
    let trouble = |error: crate::Error| Trouble::new(format!("looking for our {place}"), error);
    Ok(match place {
        Place::Iptables(Variant::Nft, family) => {
            netfilter::iptables_tables(&mut open()?, family).map_err(trouble)?.iter().any(Table::is_ours)
        }
        Place::Iptables(Variant::Legacy, family) => legacy::tables(family)?.iter().any(Table::is_ours),
        Place::Nftables(_) => false,
        Place::Ipvs => ipvs::is_ours()?,
    })
}

/// What to do with connections that live only as long as what carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    Keep,
    Cut,
}

fn remove_all(peers: &[Peer], connections: Connections, successor: Option<Successor>) -> Report {
    let mut report = Report::default();
    for peer in peers {
        if let Err(trouble) = remove_one(peer.place, connections, successor, &mut report) {
            report.failed.push(trouble);
        }
    }
    report
}

fn remove_one(place: Place, connections: Connections, successor: Option<Successor>, report: &mut Report) -> Doing<()> {
    let trouble = |error: crate::Error| Trouble::new(format!("removing kube-proxy's {place}"), error);
    match place {
        Place::Nftables(family) => {
            netfilter::remove_table(&mut open()?, family).map_err(trouble)?;
            report.removed.push(place.to_string());
        }
        Place::Iptables(Variant::Nft, family) => {
            let mut handle = open()?;
            let tables = netfilter::iptables_tables(&mut handle, family).map_err(trouble)?;
            let removals = removals(&sparing(successor, place, tables));
            netfilter::remove_chains(&mut handle, family, &removals).map_err(trouble)?;
            report.note(place, &removals);
        }
        Place::Iptables(Variant::Legacy, family) => {
            let removals = removals(&sparing(successor, place, legacy::tables(family)?));
            legacy::remove_chains(family, &removals)?;
            report.note(place, &removals);
        }
        Place::Ipvs => {
            // The sets say whose the virtual servers are, and so go last.
            report.removed.extend(ipvs::remove_servers(connections == Connections::Cut)?);
            let (removed, troubles) = ipvs::remove_sets(&ipvs::find()?.sets)?;
            report.removed.extend(removed);
            report.failed.extend(troubles);
        }
    }
    Ok(())
}

fn removals<Id: Clone>(tables: &[Table<Id>]) -> Vec<Removal<Id>> {
    tables.iter().map(Table::removal).filter(|removal| !removal.is_empty() || !removal.kept.is_empty()).collect()
}

/// Whether kube-proxy serves every family that we serve, so that our own rules can go. It writes a family's rules in one
/// transaction, once it knows all Services: one that is there means that all are.
pub fn kube_proxy_serves_what_we_serve() -> Result<bool, Trouble> {
    let detection = detect();
    let trouble = |error| Trouble::new("reading our own tables", error);
    for family in Family::BOTH {
        let ours =
            netfilter::has_elements(&mut open()?, family, crate::nftables::TABLE, "services").map_err(trouble)?;
        let theirs = detection.peers.iter().any(|peer| peer.has_services && peer.place.serves(family));
        if ours && !theirs {
            return detection.troubles.into_iter().next().map_or(Ok(false), Err);
        }
    }
    Ok(true)
}

impl Place {
    fn serves(self, wanted: Family) -> bool {
        match self {
            Self::Nftables(family) | Self::Iptables(_, family) => family == wanted,
            Self::Ipvs => false,
        }
    }
}
