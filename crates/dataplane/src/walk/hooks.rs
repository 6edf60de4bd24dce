//! The order of the hooks, and the meaning of a verdict at each.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use portolan_model::Family;
use portolan_plan::{NodePlan, Packet};

use super::{BaseChain, Branch, Budget, ChainKind, End, Ending, Hook, Outcome, Rules, Site, Verdict};

/// Runs `rules` and, between them, foreign rules.
pub fn walk(rules: &dyn Rules, foreign: &dyn Rules, node: &NodePlan, packet: &Packet) -> Outcome {
    walk_within(&Budget::default(), rules, foreign, node, packet)
}

/// The same with another budget.
pub fn walk_within(
    budget: &Budget,
    rules: &dyn Rules,
    foreign: &dyn Rules,
    node: &NodePlan,
    packet: &Packet,
) -> Outcome {
    let mut walk = Walk { rules, foreign, node, budget, outcome: Outcome::default(), left: Some(MOST_STEPS) };
    let branch = Branch::new(packet);
    match packet.interface.is_none() && node.owns(packet.source) {
        true => walk.send(branch),
        false => walk.arrive(branch),
    }
    walk.outcome
}

/// The rules on the paths of all branches, and the branches, counted at each base chain. A Service with 20,000 endpoints has
/// fewer. Branches that multiply from hook to hook end here, with an unknown fate.
const MOST_STEPS: usize = 2_000_000;

struct Walk<'a> {
    rules: &'a dyn Rules,
    foreign: &'a dyn Rules,
    node: &'a NodePlan,
    budget: &'a Budget,
    outcome: Outcome,
    /// How many more steps there may be. Of the branches beyond, one has an unknown end and the others have none.
    left: Option<usize>,
}

const LOOPBACK: &str = "lo";

impl Walk<'_> {
    fn arrive(&mut self, branch: Branch) {
        for branch in self.pass(Hook::Prerouting, branch) {
            if self.owns(branch.packet.destination) {
                self.deliver(branch);
            } else {
                self.pass(Hook::Forward, branch).into_iter().for_each(|branch| self.leave(branch));
            }
        }
    }

    fn deliver(&mut self, branch: Branch) {
        self.pass(Hook::Input, branch).into_iter().for_each(|branch| self.finish(branch));
    }

    fn send(&mut self, branch: Branch) {
        self.pass(Hook::Output, branch).into_iter().for_each(|branch| self.leave(branch));
    }

    /// A packet from the node to itself leaves through the loopback interface and comes in again.
    fn leave(&mut self, branch: Branch) {
        for mut branch in self.pass(Hook::Postrouting, branch) {
            if !self.owns(branch.packet.destination) {
                self.finish(branch);
                continue;
            }
            branch.packet.interface = Some(LOOPBACK.into());
            self.pass(Hook::Prerouting, branch).into_iter().for_each(|branch| self.deliver(branch));
        }
    }

    /// The branches that continue after a hook.
    fn pass(&mut self, hook: Hook, branch: Branch) -> Vec<Branch> {
        let (rules, foreign, node, budget) = (self.rules, self.foreign, self.node, self.budget);
        let mut live = vec![branch];
        for (chain, is_foreign) in self.chains(hook, &live[0]) {
            let source = if is_foreign { foreign } else { rules };
            let mut next = Vec::new();
            for branch in live {
                if chain.kind == ChainKind::Nat && branch.is_settled(hook) {
                    next.push(branch);
                    continue;
                }
                let Some(branch) = self.afford(branch, is_foreign) else { continue };
                let outcomes = source.run(&chain, &Site { hook, node, budget, rules }, branch);
                next.extend(
                    outcomes.into_iter().filter_map(|(branch, verdict)| self.follow(branch, verdict, is_foreign)),
                );
            }
            live = next;
        }
        let is_entry = matches!(hook, Hook::Prerouting | Hook::Output);
        live.iter_mut().for_each(|branch| branch.has_destination |= is_entry);
        live
    }

    /// The branch, unless there are too many.
    fn afford(&mut self, mut branch: Branch, is_foreign: bool) -> Option<Branch> {
        self.left = self.left?.checked_sub(1 + branch.path.len());
        if self.left.is_some() {
            return Some(branch);
        }
        branch.stopped_by = branch.path.last().cloned();
        self.end(branch, End::Unknown, is_foreign)
    }

    /// In the kernel's order. Of chains with equal priority, the kernel runs the youngest first, an order that it does
    /// not list; here ours run first.
    fn chains(&self, hook: Hook, branch: &Branch) -> Vec<(BaseChain, bool)> {
        let family = Family::of(branch.packet.destination);
        let ours = self.rules.base_chains(hook, family).into_iter().map(|chain| (chain, false));
        let foreign = self.foreign.base_chains(hook, family).into_iter().map(|chain| (chain, true));
        let mut chains: Vec<(BaseChain, bool)> = ours.chain(foreign).collect();
        chains.sort_by_key(|(chain, is_foreign)| (chain.position(hook), chain.priority, *is_foreign));
        chains
    }

    /// The branch, if it continues to the next base chain.
    fn follow(&mut self, mut branch: Branch, verdict: Verdict, is_foreign: bool) -> Option<Branch> {
        match verdict {
            Verdict::Continue => {}
            Verdict::Drop => return self.end(branch, End::Drop, is_foreign),
            Verdict::Reject => return self.end(branch, End::Reject, is_foreign),
            Verdict::Unknown => return self.end(branch, End::Unknown, is_foreign),
            // The source is translated once, by a foreign rule or by ours; the endpoint sees the same.
            Verdict::Masquerade if is_foreign => {}
            Verdict::Masquerade => branch.masqueraded = true,
            Verdict::Translate(endpoint) => branch.translate(endpoint, is_foreign),
            Verdict::Redirect(port) => {
                let own = self.own_address(branch.packet.destination);
                branch.translate(SocketAddr::new(own, port), is_foreign);
            }
            Verdict::Schedule(endpoint) => {
                branch.translate(endpoint, is_foreign);
                branch.scheduled = true;
                if !self.owns(endpoint.ip()) {
                    self.send(branch);
                    return None;
                }
            }
        }
        Some(branch)
    }

    fn owns(&self, address: IpAddr) -> bool {
        self.node.owns(address) || self.rules.owns(address)
    }

    /// Which of the node's addresses it is depends on the interface; no rule of ours depends on it.
    fn own_address(&self, destination: IpAddr) -> IpAddr {
        let family = Family::of(destination);
        self.node.primary_address(family).unwrap_or(match family {
            Family::V4 => Ipv4Addr::LOCALHOST.into(),
            Family::V6 => Ipv6Addr::LOCALHOST.into(),
        })
    }

    fn finish(&mut self, branch: Branch) {
        let is_ours = branch.translated && !branch.is_diverted;
        let end = if is_ours { End::Forward(branch.destination()) } else { End::Pass };
        self.end(branch, end, false);
    }

    fn end(&mut self, branch: Branch, end: End, is_foreign: bool) -> Option<Branch> {
        let destination = branch.destination();
        let Branch { masqueraded, translated, share, path, stopped_by, .. } = branch;
        self.outcome.affinity = self.outcome.affinity.or(branch.affinity);
        self.outcome.notes.extend(branch.notes);
        let masquerade = masqueraded && translated && matches!(end, End::Forward(_));
        self.outcome.endings.push(Ending { end, masquerade, share, path, stopped_by, is_foreign, destination });
        None
    }
}

/// `dstnat` and `srcnat`: all NAT chains of a hook run at these priorities, one after the other.
pub(crate) const DESTINATION_NAT: i32 = -100;
pub(crate) const SOURCE_NAT: i32 = 100;

impl BaseChain {
    fn position(&self, hook: Hook) -> i32 {
        match (self.kind, hook) {
            (ChainKind::Filter, _) => self.priority,
            (ChainKind::Nat, Hook::Prerouting | Hook::Output | Hook::Forward) => DESTINATION_NAT,
            (ChainKind::Nat, Hook::Input | Hook::Postrouting) => SOURCE_NAT,
        }
    }
}
