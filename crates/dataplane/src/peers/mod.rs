//! Service proxies on this node: finding what kube-proxy or another mode of ours has programmed, and removing exactly
//! that once the active mode's rules are committed.
//!
//! Connections that another proxy has translated continue: the kernel keeps a translation with its connection and applies
//! it as long as any NAT chain is hooked. By then, ours is.

mod takeover;

use std::fmt;

use portolan_model::Family;

use crate::modes;
use crate::place::{Connections, Found, Owned, Place, Users};
pub use crate::place::{RemovalError, Report};
pub use crate::tables::Variant;
pub use takeover::Takeover;

/// What a proxy has programmed in one place.
pub struct Peer {
    pub place: Box<dyn Place>,
    pub found: Found,
}

impl fmt::Debug for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} objects)", self.place, self.found.objects)
    }
}

/// What was found, and what could not be read.
#[derive(Default)]
pub struct Detection {
    pub peers: Vec<Peer>,
    pub errors: Vec<RemovalError>,
}

/// What kube-proxy has programmed, or can have: some of its objects have the same names as ours.
pub fn detect() -> Detection {
    find(|place| place.users() != Users::Portolan, None)
}

/// Looks in the order in which objects can be removed: IP sets go after the rules that refer to them.
fn find(is_meant: impl Fn(&dyn Place) -> bool, owned: Option<&Owned>) -> Detection {
    let mut detection = Detection::default();
    for place in modes::places().filter(|place| is_meant(&**place)) {
        match place.find(owned) {
            Ok(found) => detection.peers.extend(found.map(|found| Peer { place, found })),
            Err(error) => detection.errors.push(error),
        }
    }
    detection
}

/// What a takeover by the mode that owns this still has to remove.
pub fn leftovers(owned: &Owned) -> Detection {
    find(|_| true, Some(owned))
}

/// Removes what [`detect`] found. Call it only after our own rules are committed. A failure is reported and the rest
/// continues; a later call completes it.
pub fn remove(peers: &[Peer]) -> Report {
    remove_all(peers, Connections::Keep, None)
}

/// Removes everything of every mode, kube-proxy's and our own. Afterwards no Service is served.
pub fn cleanup_everything() -> Report {
    let detection = find(|_| true, None);
    let mut report = remove_all(&detection.peers, Connections::Cut, None);
    report.failed.extend(detection.errors);
    remove_extras(&mut report);
    report
}

/// Removes everything of our own, in every mode, and nothing of kube-proxy's.
pub fn cleanup_own() -> Report {
    let mut report = Report::default();
    for place in modes::places() {
        let outcome = match place.is_ours() {
            Ok(true) => place.remove(None, Connections::Cut, &mut report),
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        report.failed.extend(outcome.err());
    }
    remove_extras(&mut report);
    report
}

fn remove_extras(report: &mut Report) {
    modes::of_this_system().for_each(|mode| mode.remove_extras(report));
}

/// Whether a mode of ours is programmed whose objects have kube-proxy's names.
pub fn has_kube_proxys_names() -> Result<bool, RemovalError> {
    for place in modes::places().filter(|place| place.users() == Users::Both) {
        if place.is_ours()? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn remove_all(peers: &[Peer], connections: Connections, owned: Option<&Owned>) -> Report {
    let mut report = Report::default();
    for peer in peers {
        if let Err(error) = peer.place.remove(owned, connections, &mut report) {
            report.failed.push(error);
        }
    }
    report
}

/// Whether kube-proxy serves every family that we serve, so that our own rules can go. It writes the rules of a family in
/// one transaction, once it knows all Services: where one is programmed, all are.
pub fn kube_proxy_serves_what_we_serve() -> Result<bool, RemovalError> {
    let detection = find(|_| true, None);
    let (ours, theirs): (Vec<&Peer>, Vec<&Peer>) = detection
        .peers
        .iter()
        .filter(|peer| peer.found.has_services)
        .partition(|peer| peer.place.users() == Users::Portolan);
    let serves = |peers: &[&Peer], family| peers.iter().any(|peer| peer.place.serves(family));
    if Family::BOTH.into_iter().all(|family| !serves(&ours, family) || serves(&theirs, family)) {
        return Ok(true);
    }
    detection.errors.into_iter().next().map_or(Ok(false), Err)
}
