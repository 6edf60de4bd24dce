//! kube-proxy's iptables mode: what `iptables-save` prints, run on a packet.

mod rule;

use std::collections::HashMap;
use std::net::IpAddr;

use portolan_dataplane::peers::save::{SavedTable, parse_save};
use portolan_model::Protocol;
use portolan_plan::{FrontendAddress, NodePlan};

use crate::walk::{Branch, Entry, Hook, PeerFrontend, Rules, Verdict};
use rule::{Action, Matching, Rule};

/// Both families' tables. A chain is found by family, table and name.
#[derive(Default)]
pub(crate) struct Iptables {
    chains: HashMap<(bool, String, String), Chain>,
    /// Rules of kube-proxy with something in them that is not understood, as text.
    pub(crate) unknown: Vec<String>,
}

/// Rules for one exact destination are found by it: a node may have tens of thousands in one chain.
#[derive(Default)]
struct Chain {
    rules: Vec<Rule>,
    exact: HashMap<(Option<IpAddr>, Protocol, u16), Vec<usize>>,
    general: Vec<usize>,
}

/// Rules of others in the built-in chains are not run: they are the same under any proxy.
fn is_relevant(chain: &str, target: Option<&str>) -> bool {
    chain.starts_with("KUBE-") || target.is_some_and(|target| target.starts_with("KUBE-") && target != "KUBE-FIREWALL")
}

impl Iptables {
    pub(crate) fn add(&mut self, is_ipv6: bool, text: &str) {
        for SavedTable { name, rules, .. } in parse_save(text) {
            for saved in rules.iter().filter(|rule| is_relevant(&rule.chain, rule.target())) {
                let rule = Rule::parse(&saved.words);
                self.unknown
                    .extend(rule.unknown.iter().map(|what| format!("{what} in {} {}", saved.chain, saved.text)));
                self.chains.entry((is_ipv6, name.clone(), saved.chain.clone())).or_default().push(rule);
            }
        }
    }

    fn chain(&self, branch: &Branch, table: &str, name: &str) -> Option<&Chain> {
        self.chains.get(&(branch.packet.destination.is_ipv6(), table.to_owned(), name.to_owned()))
    }

    /// Gives the branches that come back from the chain; those that do not are put into `ended`.
    fn run_chain(&self, at: &Place<'_>, name: &str, branch: Branch, ended: &mut Vec<(Branch, Verdict)>) -> Vec<Branch> {
        let Some(chain) = self.chain(&branch, at.table, name) else {
            return vec![branch];
        };
        let mut returned = Vec::new();
        let mut live = vec![branch];
        for rule in chain.candidates(&live[0]) {
            let mut next = Vec::new();
            for branch in live {
                let (matched, unmatched) = rule.split(branch, at.node);
                next.extend(unmatched);
                if let Some(branch) = matched {
                    self.act(at, rule, branch, Lists { next: &mut next, returned: &mut returned, ended });
                }
            }
            live = next;
        }
        returned.extend(live);
        returned
    }

    fn act(&self, at: &Place<'_>, rule: &Rule, mut branch: Branch, lists: Lists<'_>) {
        match &rule.action {
            Action::None => lists.next.push(branch),
            Action::Jump(chain) => lists.next.extend(self.run_chain(at, chain, branch, lists.ended)),
            Action::Goto(chain) => lists.returned.extend(self.run_chain(at, chain, branch, lists.ended)),
            Action::Return => lists.returned.push(branch),
            Action::Mark { value, mask } => {
                branch.mark = (branch.mark & !mask) ^ value;
                lists.next.push(branch);
            }
            Action::End(verdict) => lists.ended.push((branch, *verdict)),
        }
    }
}

struct Place<'a> {
    table: &'a str,
    node: &'a NodePlan,
}

/// Where a branch goes from a rule: to the next rule, back to the calling chain, or nowhere.
struct Lists<'a> {
    next: &'a mut Vec<Branch>,
    returned: &'a mut Vec<Branch>,
    ended: &'a mut Vec<(Branch, Verdict)>,
}

impl Chain {
    fn push(&mut self, rule: Rule) {
        let index = self.rules.len();
        match rule.matching {
            Matching { destination, protocol: Some(protocol), port: Some(port) } => {
                self.exact.entry((destination, protocol, port)).or_default().push(index);
            }
            _ => self.general.push(index),
        }
        self.rules.push(rule);
    }

    /// The rules that may match, in their order.
    fn candidates<'a>(&'a self, branch: &Branch) -> Vec<&'a Rule> {
        let packet = &branch.packet;
        let of = |destination| self.exact.get(&(destination, packet.protocol, packet.port)).into_iter().flatten();
        let exact = of(Some(packet.destination)).chain(of(None));
        let mut indices: Vec<usize> = exact.chain(&self.general).copied().collect();
        indices.sort_unstable();
        indices.into_iter().map(|index| &self.rules[index]).collect()
    }
}

impl Rules for Iptables {
    fn run(&self, hook: Hook, node: &NodePlan, branch: Branch) -> Vec<(Branch, Verdict)> {
        let (table, chain) = match hook {
            Hook::Early(_) => return vec![(branch, Verdict::Continue)],
            Hook::Translate(Entry::Prerouting) => ("nat", "PREROUTING"),
            Hook::Translate(Entry::Output) => ("nat", "OUTPUT"),
            Hook::Input => ("filter", "INPUT"),
            Hook::Forward => ("filter", "FORWARD"),
            Hook::Output => ("filter", "OUTPUT"),
            Hook::Leave => ("nat", "POSTROUTING"),
        };
        let mut ended = Vec::new();
        let returned = self.run_chain(&Place { table, node }, chain, branch, &mut ended);
        ended.extend(returned.into_iter().map(|branch| (branch, Verdict::Continue)));
        ended
    }

    fn frontends(&self) -> Vec<PeerFrontend> {
        let listed = ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS"];
        let of_chain = |((is_ipv6, table, name), chain): (&(bool, String, String), &'_ Chain)| {
            let is_listed = listed.contains(&name.as_str()) && !(table == "filter" && name == "KUBE-NODEPORTS");
            let rules = chain.rules.iter().filter(move |_| is_listed);
            rules.filter_map(|rule| rule.frontend(*is_ipv6)).collect::<Vec<_>>()
        };
        self.chains.iter().flat_map(of_chain).collect()
    }
}

impl Rule {
    /// Rules of node ports name no address, or all of loopback.
    fn frontend(&self, is_ipv6: bool) -> Option<PeerFrontend> {
        let Matching { destination, protocol, port } = self.matching;
        let family = if is_ipv6 { portolan_model::Family::V6 } else { portolan_model::Family::V4 };
        let port = port?;
        let address =
            destination.map_or(FrontendAddress::NodePort(port), |address| FrontendAddress::Vip(address, port));
        let service = self.comment.split_whitespace().next().unwrap_or_default().to_owned();
        Some(PeerFrontend { family, address, protocol: protocol?, service })
    }
}
