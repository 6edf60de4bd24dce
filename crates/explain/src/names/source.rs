//! From the source of a question to its addresses.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::Family;
use portolan_plan::Plan;

use super::known::{Found, Known, Wanted};
use super::term::{Kind, Name, Place};
use crate::printable::printable;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) label: Option<String>,
    /// That of a pod, whose bare names are looked up there first.
    pub(super) namespace: Option<Arc<str>>,
    /// One of each family.
    pub(super) addresses: Vec<IpAddr>,
    /// It is a pod of this node.
    pub(super) is_here: bool,
}

/// Any client that is neither a pod nor a node.
const OUTSIDE: [&str; 2] = ["client-ip", "outside"];
/// Addresses of documentation, which no client has.
const OUTSIDE_ADDRESSES: [&str; 6] =
    ["203.0.113.1", "198.51.100.1", "192.0.2.1", "2001:db8::1", "2001:db8:ffff::1", "3fff::1"];

pub(super) fn source(known: &Known<'_>, place: &Place) -> Result<Source, String> {
    let term = match place {
        Place::Address(address) => return Ok(Source { addresses: vec![*address], ..Source::default() }),
        Place::Named(term) => term,
    };
    if let Kind::Service(_) = term.kind {
        return Err("a Service is a destination: write a pod, a node or an address as the source".into());
    }
    let candidates = known.candidates(term, Wanted::Hosts);
    if candidates.is_empty() && is_outside(term) {
        return Ok(outside(known.plan, &term.name));
    }
    host(&known.only(term, candidates, None)?)
}

/// A pod whose addresses are known from elsewhere.
pub(super) fn looked_up(place: &Place, addresses: &[IpAddr]) -> Source {
    let named = match place {
        Place::Named(Name { kind: Kind::Pod, namespace: Some(namespace), name }) => Some((namespace, name)),
        _ => None,
    };
    Source {
        label: named.map(|(namespace, name)| printable(&format!("pod/{namespace}/{name}")).into_owned()),
        namespace: named.map(|(namespace, _)| namespace.as_str().into()),
        addresses: addresses.to_vec(),
        is_here: false,
    }
}

fn is_outside(term: &Name) -> bool {
    term.kind == Kind::Any && term.namespace.is_none() && OUTSIDE.contains(&&*term.name)
}

fn outside(plan: &Plan, name: &str) -> Source {
    let free = |address: &IpAddr| !plan.is_inside(*address) && !plan.claims.any_at(*address, |_| true);
    let of = |family| {
        let addresses = OUTSIDE_ADDRESSES.iter().filter_map(|text| text.parse::<IpAddr>().ok());
        addresses.filter(|address| Family::of(*address) == family).find(free)
    };
    let addresses = Family::BOTH.into_iter().filter_map(of).collect();
    Source { label: Some(name.to_owned()), addresses, ..Source::default() }
}

/// A host that packets come from or go to directly.
pub(super) fn host(found: &Found) -> Result<Source, String> {
    let label = Some(found.label());
    let source = match found {
        Found::Service(_) => return Err(format!("{} is a Service, and no host", found.label())),
        Found::Pod { namespace, addresses, is_here, .. } => {
            let (addresses, is_here) = (one_of_each(found, addresses)?, *is_here);
            Source { label, namespace: Some(namespace.clone()), addresses, is_here }
        }
        Found::Endpoint { addresses, .. } => {
            Source { label, addresses: one_of_each(found, addresses)?, ..Source::default() }
        }
        Found::Node { addresses, .. } => Source { label, addresses: primary(addresses), ..Source::default() },
    };
    match source.addresses.as_slice() {
        [] => Err(format!("the addresses of {} are not known here: write its address", found.label())),
        _ => Ok(source),
    }
}

/// A Node may have several addresses of a family; the first is the one by which the cluster knows it.
fn primary(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first = |family| addresses.iter().copied().find(|address| Family::of(*address) == family);
    Family::BOTH.into_iter().filter_map(first).collect()
}

/// A pod has at most one address of a family. Slices that disagree about it leave the choice to the user.
fn one_of_each(found: &Found, addresses: &[IpAddr]) -> Result<Vec<IpAddr>, String> {
    let several =
        Family::BOTH.iter().any(|family| addresses.iter().filter(|it| Family::of(**it) == *family).count() > 1);
    if !several {
        return Ok(addresses.to_vec());
    }
    let list: Vec<String> = addresses.iter().take(10).map(ToString::to_string).collect();
    Err(format!("{} has several addresses: write one of {}", found.label(), list.join(", ")))
}
