//! Traces a packet through the objects alone: iptables rules, and IPVS between them at its own hooks.

use std::net::{IpAddr, SocketAddr};

use portolan_model::Family;
use portolan_plan::{NodePlan, Packet, Reason, Trace};

use super::chains::NOT_ALLOWED;
use super::objects::{Key, Server, Value, destinations};
use super::{Ipvs, weights};
use crate::tables::trace::{book, step};
use crate::tables::{self, RuleBook};
use crate::tracer::EachFamily;
use crate::walk::{BaseChain, Branch, ChainKind, Hook, Met, Rules, Site, Verdict, walk};
use crate::{Objects, fate};

pub(super) fn tracer<'a>(
    objects: &'a Objects<Ipvs>,
    foreign: &'a dyn Rules,
    node: &'a NodePlan,
) -> impl Fn(&Packet) -> Trace + 'a {
    let rules = EachFamily::new(move |family| VirtualServers { objects, book: rule_book(objects, family) });
    move |packet| fate::trace(&walk(rules.of(packet), foreign, node, packet), reason, step)
}

fn rule_book(objects: &Objects<Ipvs>, family: Family) -> RuleBook {
    let rules = objects.0.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Rules(key), Value::Rules(value)) => Some((key, value)),
        _ => None,
    });
    let mut book = book(rules, family);
    for key in objects.0.keys() {
        if let Key::Entry(set, entry) = key {
            book.sets.add(set.to_string(), *entry);
        }
    }
    book
}

struct VirtualServers<'a> {
    objects: &'a Objects<Ipvs>,
    book: RuleBook,
}

/// IPVS appears as a chain of this name, in no table.
const IPVS: &str = "ipvs";
/// `NF_IP_PRI_NAT_SRC - 1`: after the filters of arriving packets.
const INPUT_PRIORITY: i32 = 99;
/// `NF_IP_PRI_NAT_DST + 2`: before the filters of packets that the node sends.
const OUTPUT_PRIORITY: i32 = -98;
const NO_DESTINATIONS: &str = "no destinations";

impl Rules for VirtualServers<'_> {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain> {
        let priority = match hook {
            Hook::Input => Some(INPUT_PRIORITY),
            Hook::Output => Some(OUTPUT_PRIORITY),
            _ => None,
        };
        let ipvs = |priority| BaseChain { table: IPVS.into(), name: IPVS.into(), kind: ChainKind::Filter, priority };
        self.book.base_chains(hook, family).into_iter().chain(priority.map(ipvs)).collect()
    }

    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
        match &*chain.table {
            IPVS => self.schedule(branch),
            _ => self.book.run(chain, site, branch),
        }
    }

    /// The addresses on the mode's device.
    fn owns(&self, address: IpAddr) -> bool {
        self.objects.0.contains_key(&Key::Address(address))
    }
}

impl VirtualServers<'_> {
    /// A packet that IPVS has sent is not scheduled again.
    fn schedule(&self, mut branch: Branch) -> Vec<(Branch, Verdict)> {
        let Packet { destination, port, protocol, .. } = branch.packet;
        let server = Server { address: SocketAddr::new(destination, port), protocol };
        let Some(scheduling) = self.objects.0.get(&Key::Server(server)).filter(|_| !branch.scheduled) else {
            return vec![(branch, Verdict::Continue)];
        };
        branch.path.push(Met::new(format!("virtual server {server}"), format!("scheduler{scheduling}")));
        let endpoints = weights::slots(destinations(&self.objects.0, server));
        if endpoints.is_empty() {
            branch.stopped_by = Some(Met::new(format!("virtual server {server}"), NO_DESTINATIONS));
            return vec![(branch, Verdict::Reject)];
        }
        branch.share /= endpoints.len() as f64;
        endpoints.into_iter().map(|endpoint| (branch.clone(), Verdict::Schedule(endpoint))).collect()
    }
}

fn reason(met: &Met) -> Option<Reason> {
    if *met.content == *NO_DESTINATIONS {
        return Some(Reason::NoEndpoints);
    }
    tables::trace::reason(met).or(met.content.contains(NOT_ALLOWED).then_some(Reason::SourceNotAllowed))
}
