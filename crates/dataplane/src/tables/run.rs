//! Runs rules, as `iptables-save` prints them, on a packet. Independent of the purpose of chains.
//!
//! A rule with an unsupported word ends in an error once all its other words match, never in a guess.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Family, Protocol};

use super::condition::{Action, Matching, Rule};
use super::sets::Sets;
use crate::walk::{BaseChain, Branch, ChainKind, DESTINATION_NAT, Hook, Met, Rules, SOURCE_NAT, Site, Verdict};

/// Both families' tables. A chain is found by family, table and name.
#[derive(Default)]
pub struct RuleBook {
    chains: HashMap<(Family, Arc<str>, Arc<str>), Chain>,
    /// The sets that `-m set` matches.
    pub(crate) sets: Sets,
    /// Rules with unsupported words, as text.
    pub unknown: Vec<String>,
}

/// Rules for one exact destination are indexed by it: a chain can have tens of thousands of them.
#[derive(Default)]
struct Chain {
    rules: Vec<(Rule, Arc<str>)>,
    exact: HashMap<(Option<IpAddr>, Protocol, u16), Vec<usize>>,
    general: Vec<usize>,
}

impl RuleBook {
    pub fn add(&mut self, family: Family, table: &str, chain: &str, text: &str) {
        let rule = Rule::parse(text);
        self.unknown.extend(rule.unknown.iter().map(|what| format!("{what} in {chain} {text}")));
        self.chains.entry((family, table.into(), chain.into())).or_default().push(rule, text.into());
    }

    /// The matches of a chain's rules, each with its comment.
    pub fn matchings(&self, family: Family, table: &str, chain: &str) -> Vec<(Matching, &str)> {
        let chain = self.chains.get(&(family, table.into(), chain.into()));
        chain.iter().flat_map(|chain| &chain.rules).map(|(rule, _)| (rule.matching, rule.comment.as_str())).collect()
    }

    fn chain(&self, branch: &Branch, table: &str, name: &str) -> Option<&Chain> {
        self.chains.get(&(Family::of(branch.packet.destination), table.into(), name.into()))
    }

    /// Returns the branches that return from the chain; the others go to `ended`.
    fn run_chain(&self, at: &At<'_>, name: &str, branch: Branch, ended: &mut Vec<(Branch, Verdict)>) -> Vec<Branch> {
        let Some(chain) = self.chain(&branch, at.table, name) else {
            return vec![branch];
        };
        let mut returned = Vec::new();
        let mut live = vec![branch];
        let name: Arc<str> = name.into();
        for (rule, text) in chain.candidates(&live[0]) {
            let mut next = Vec::new();
            for branch in live {
                let (matched, unmatched) = rule.split(branch, at.site, &self.sets);
                next.extend(unmatched);
                if let Some(mut branch) = matched {
                    branch.path.push(Met { place: name.clone(), content: text.clone() });
                    self.act(at, rule, branch, Lists { next: &mut next, returned: &mut returned, ended });
                }
            }
            at.limit(&mut next, ended);
            live = next;
        }
        returned.extend(live);
        at.limit(&mut returned, ended);
        returned
    }

    fn act(&self, at: &At<'_>, rule: &Rule, mut branch: Branch, lists: Lists<'_>) {
        if at.is_exhausted(&branch) {
            return at.give_up(branch, lists.ended);
        }
        if rule.unknown.is_some() {
            branch.stopped_by = branch.path.last().cloned();
            return lists.ended.push((branch, Verdict::Unknown));
        }
        match &rule.action {
            Action::None => lists.next.push(branch),
            Action::Jump(chain) => lists.next.extend(self.run_chain(&at.below(), chain, branch, lists.ended)),
            Action::Goto(chain) => lists.returned.extend(self.run_chain(&at.below(), chain, branch, lists.ended)),
            Action::Return => lists.returned.push(branch),
            Action::Mark { value, mask } => {
                branch.mark = (branch.mark & !mask) ^ value;
                lists.next.push(branch);
            }
            Action::End(verdict) => {
                let is_refusal = matches!(verdict, Verdict::Drop | Verdict::Reject);
                branch.stopped_by = branch.path.last().filter(|_| is_refusal).cloned();
                lists.ended.push((branch, *verdict));
            }
        }
    }
}

/// The kernel refuses chains in a circle, but a text may have them, and random branches and jumps can multiply without one.
/// Beyond these limits the fate of a packet is unknown.
const DEEPEST: usize = 64;
const MOST_BRANCHES: usize = 64;
/// The rules on the paths of all branches together: a Service with 20,000 endpoints has fewer.
const MOST_STEPS: usize = 500_000;

struct At<'a> {
    table: &'a str,
    site: &'a Site<'a>,
    depth: usize,
    /// How many more steps there may be.
    left: &'a Cell<usize>,
    /// A branch was given up, so that the fate is unknown whatever the others do.
    has_given_up: &'a Cell<bool>,
}

impl<'a> At<'a> {
    fn below(&self) -> At<'a> {
        At { depth: self.depth + 1, ..*self }
    }

    fn is_exhausted(&self, branch: &Branch) -> bool {
        let left = self.left.get().saturating_sub(branch.path.len());
        self.left.set(left);
        left == 0 || self.depth > DEEPEST || !self.site.budget.step()
    }

    /// Of all branches that are given up, one is enough.
    fn give_up(&self, mut branch: Branch, ended: &mut Vec<(Branch, Verdict)>) {
        if !self.has_given_up.replace(true) {
            branch.stopped_by = branch.path.last().cloned();
            ended.push((branch, Verdict::Unknown));
        }
    }

    fn limit(&self, branches: &mut Vec<Branch>, ended: &mut Vec<(Branch, Verdict)>) {
        let excess = branches.split_off(branches.len().min(MOST_BRANCHES));
        excess.into_iter().take(1).for_each(|branch| self.give_up(branch, ended));
    }
}

/// Where a branch continues after a rule: at the next rule, in the calling chain, or nowhere.
struct Lists<'a> {
    next: &'a mut Vec<Branch>,
    returned: &'a mut Vec<Branch>,
    ended: &'a mut Vec<(Branch, Verdict)>,
}

impl Chain {
    fn push(&mut self, rule: Rule, text: Arc<str>) {
        let index = self.rules.len();
        match rule.matching {
            Matching { destination, protocol: Some(protocol), port: Some(port) } => {
                self.exact.entry((destination, protocol, port)).or_default().push(index);
            }
            _ => self.general.push(index),
        }
        self.rules.push((rule, text));
    }

    /// The rules that may match, in their order.
    fn candidates<'a>(&'a self, branch: &Branch) -> Vec<&'a (Rule, Arc<str>)> {
        let packet = &branch.packet;
        let of = |destination| self.exact.get(&(destination, packet.protocol, packet.port)).into_iter().flatten();
        let exact = of(Some(packet.destination)).chain(of(None));
        let mut indices: Vec<usize> = exact.chain(&self.general).copied().collect();
        indices.sort_unstable();
        indices.into_iter().map(|index| &self.rules[index]).collect()
    }
}

/// The tables of iptables with their priorities.
const TABLES: [(&str, i32); 5] =
    [("raw", -300), ("mangle", -150), ("nat", DESTINATION_NAT), ("filter", 0), ("security", 50)];

fn built_in(hook: Hook) -> &'static str {
    match hook {
        Hook::Prerouting => "PREROUTING",
        Hook::Input => "INPUT",
        Hook::Forward => "FORWARD",
        Hook::Output => "OUTPUT",
        Hook::Postrouting => "POSTROUTING",
    }
}

impl Rules for RuleBook {
    fn base_chains(&self, hook: Hook, family: Family) -> Vec<BaseChain> {
        let name: Arc<str> = built_in(hook).into();
        let is_there = |table: &str| self.chains.contains_key(&(family, table.into(), name.clone()));
        let base = |(table, priority): (&str, i32)| {
            let (kind, priority) = match table {
                "nat" if matches!(hook, Hook::Input | Hook::Postrouting) => (ChainKind::Nat, SOURCE_NAT),
                "nat" => (ChainKind::Nat, priority),
                _ => (ChainKind::Filter, priority),
            };
            BaseChain { table: table.into(), name: name.clone(), kind, priority }
        };
        TABLES.into_iter().filter(|(table, _)| is_there(table)).map(base).collect()
    }

    fn run(&self, chain: &BaseChain, site: &Site<'_>, branch: Branch) -> Vec<(Branch, Verdict)> {
        let mut ended = Vec::new();
        let (left, has_given_up) = (&Cell::new(MOST_STEPS), &Cell::new(false));
        let at = At { table: &chain.table, site, depth: 0, left, has_given_up };
        let returned = self.run_chain(&at, &chain.name, branch, &mut ended);
        ended.extend(returned.into_iter().map(|branch| (branch, Verdict::Continue)));
        ended
    }
}
