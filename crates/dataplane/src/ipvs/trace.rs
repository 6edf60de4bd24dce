//! Where a packet goes by the objects alone: the rules run, and between them the virtual servers asked.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use portolan_model::Family;
use portolan_plan::{Candidate, Fate, NodePlan, Packet, Reason, Refusal, Step, Trace};

use super::Ipvs;
use super::chains::NOT_ALLOWED;
use super::objects::{Key, Server, Value, destinations};
use crate::Objects;
use crate::tables::RuleBook;
use crate::tables::refusals::words;
use crate::tables::trace::{book, step};
use crate::walk::{Branch, Entry, Hook, Rules, Verdict};

pub(super) fn trace(objects: &Objects<Ipvs>, node: &NodePlan, packet: &Packet) -> Trace {
    let mut walk = Walk { objects, node, book: rule_book(objects, Family::of(packet.destination)), steps: Vec::new() };
    let fate = walk.enter(packet).unwrap_or_else(|end| end);
    Trace { steps: walk.steps, fate, service: None }
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

struct Walk<'a> {
    objects: &'a Objects<Ipvs>,
    node: &'a NodePlan,
    book: RuleBook,
    steps: Vec<Step>,
}

/// An end is an error to what would have come after it.
type Way<T> = Result<T, Fate>;

impl Walk<'_> {
    fn enter(&mut self, packet: &Packet) -> Way<Fate> {
        let branch =
            Branch { packet: packet.clone(), translated: false, mark: 0, share: 1.0, affinity: None, path: Vec::new() };
        let is_own = packet.interface.is_none() && self.node.owns(packet.source);
        let entry = if is_own { Entry::Output } else { Entry::Prerouting };
        let branch = self.pass(Hook::Early(entry), branch)?;
        let branch = self.pass(Hook::Translate(entry), branch)?;
        match entry {
            Entry::Output => self.send(branch),
            Entry::Prerouting => self.arrive(branch),
        }
    }

    /// IPVS looks at what the node sends before the filters do. What it does not know and is for the node comes in again.
    fn send(&mut self, branch: Branch) -> Way<Fate> {
        if let Some(endpoints) = self.ask(&branch)? {
            return Ok(self.forward(branch, &endpoints));
        }
        let branch = self.pass(Hook::Output, branch)?;
        if self.is_local(branch.packet.destination) {
            self.pass(Hook::Input, branch)?;
        }
        Ok(Fate::Pass)
    }

    /// What arrives is looked at by IPVS after the filters, and only if it is for the node.
    fn arrive(&mut self, branch: Branch) -> Way<Fate> {
        if !self.is_local(branch.packet.destination) {
            return self.pass(Hook::Forward, branch).map(|_| Fate::Pass);
        }
        let branch = self.pass(Hook::Input, branch)?;
        match self.ask(&branch)? {
            Some(endpoints) => Ok(self.forward(branch, &endpoints)),
            None => Ok(Fate::Pass),
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        self.node.owns(address) || self.objects.0.contains_key(&Key::Address(address))
    }

    /// The destinations behind what the packet asks for; `None` if that is no virtual server.
    fn ask(&mut self, branch: &Branch) -> Way<Option<Vec<SocketAddr>>> {
        let Packet { destination, port, protocol, .. } = branch.packet;
        let server = Server { address: SocketAddr::new(destination, port), protocol };
        let Some(scheduling) = self.objects.0.get(&Key::Server(server)) else { return Ok(None) };
        let endpoints: Vec<SocketAddr> = destinations(&self.objects.0, server).map(|(it, _)| it).collect();
        self.steps.push(Step::new(format!("virtual server {server}"), format!("scheduler{scheduling}")));
        match endpoints.is_empty() {
            true => Err(self.refuse(Refusal::Reject(Reason::NoEndpoints))),
            false => Ok(Some(endpoints)),
        }
    }

    /// What stays on the node does not pass the rules for what leaves.
    fn forward(&mut self, branch: Branch, endpoints: &[SocketAddr]) -> Fate {
        let candidates: BTreeSet<Candidate> = endpoints
            .iter()
            .map(|endpoint| {
                let mut branch = branch.clone();
                (branch.packet.destination, branch.packet.port) = (endpoint.ip(), endpoint.port());
                let leaves = self.node.owns(branch.packet.source) || !self.node.owns(endpoint.ip());
                Candidate { endpoint: *endpoint, masquerade: leaves && self.is_masqueraded(branch) }
            })
            .collect();
        Fate::Forward(candidates.into_iter().collect())
    }

    fn is_masqueraded(&mut self, branch: Branch) -> bool {
        let outcomes = self.book.run(Hook::Leave, self.node, branch);
        let masqueraded = outcomes.iter().find(|(_, verdict)| *verdict == Verdict::Masquerade);
        masqueraded.map(|(branch, _)| self.note(branch)).is_some()
    }

    /// These rules have no random branches, so that there is one way through a hook.
    fn pass(&mut self, hook: Hook, branch: Branch) -> Way<Branch> {
        let Some((branch, verdict)) = self.book.run(hook, self.node, branch).pop() else { return Err(Fate::Pass) };
        self.note(&branch);
        let reason = || branch.path.last().and_then(|met| reason(&met.rule));
        let refusal = match verdict {
            Verdict::Drop => reason().map(Refusal::Drop),
            Verdict::Reject => reason().map(Refusal::Reject),
            _ => return Ok(Branch { path: Vec::new(), ..branch }),
        };
        Err(refusal.map_or(Fate::Pass, |refusal| self.refuse(refusal)))
    }

    fn note(&mut self, branch: &Branch) {
        self.steps.extend(branch.path.iter().map(step));
    }

    fn refuse(&mut self, refusal: Refusal) -> Fate {
        self.steps.push(Step::new(refusal.to_string(), refusal.reason().in_words()));
        Fate::Refuse(refusal)
    }
}

/// By the comment of the rule that refused.
fn reason(rule: &str) -> Option<Reason> {
    let known = Reason::ALL.into_iter().find(|reason| rule.contains(words(*reason)));
    known.or(rule.contains(NOT_ALLOWED).then_some(Reason::SourceNotAllowed))
}
