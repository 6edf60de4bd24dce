//! kube-proxy's nftables mode: its tables read by netlink, and their expressions run on a packet.

mod machine;
mod read;
mod sets;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_kernel::nftables::{ChainKind, Expression, Hook as ChainHook, HookPoint, Verdict as Code};
use portolan_model::{Family, Protocol};
use portolan_plan::{FrontendAddress, NodePlan};

use portolan_dataplane::walk::{Branch, Entry, Hook, Rules, Verdict};

use crate::peer::{Frontends, PeerFrontend};
use machine::{Step, run_rule};
pub(crate) use read::read;
use sets::Set;

/// The tables of both families.
#[derive(Default)]
pub(crate) struct Nftables {
    tables: HashMap<Family, Table>,
    pub(crate) unknown: Vec<String>,
}

#[derive(Default)]
struct Table {
    chains: HashMap<Arc<str>, Vec<Vec<Expression>>>,
    hooked: Vec<(Arc<str>, ChainHook)>,
    sets: HashMap<Arc<str>, Set>,
}

/// `dstnat`: filters before it see the packet as it came.
const TRANSLATE: i32 = -100;

impl Table {
    /// The base chains of a hook, in the order in which the kernel runs them.
    fn base_chains(&self, hook: Hook) -> Vec<&str> {
        let is_of = |chain: &ChainHook| match hook {
            Hook::Early(entry) => is_filter(chain, point(entry)) && chain.priority < TRANSLATE,
            Hook::Translate(entry) => is_nat(chain, point(entry)),
            Hook::Input => is_filter(chain, HookPoint::Input),
            Hook::Forward => is_filter(chain, HookPoint::Forward),
            Hook::Output => is_filter(chain, HookPoint::Output) && chain.priority > TRANSLATE,
            Hook::Leave => is_nat(chain, HookPoint::Postrouting),
        };
        let mut chains: Vec<&(Arc<str>, ChainHook)> = self.hooked.iter().filter(|(_, hook)| is_of(hook)).collect();
        chains.sort_by_key(|(_, hook)| hook.priority);
        chains.into_iter().map(|(name, _)| &**name).collect()
    }

    /// Gives the branches that come back from the chain; those that do not are put into `ended`.
    fn run_chain(
        &self,
        node: &NodePlan,
        name: &str,
        branch: Branch,
        ended: &mut Vec<(Branch, Verdict)>,
    ) -> Vec<Branch> {
        let (mut live, mut returned) = (vec![branch], Vec::new());
        for rule in self.chains.get(name).into_iter().flatten() {
            let mut next = Vec::new();
            for step in live.into_iter().flat_map(|branch| run_rule(self, node, rule, branch)) {
                match step {
                    Step::Next(branch) => next.push(branch),
                    Step::End(branch, verdict) => ended.push((branch, verdict)),
                    Step::Verdict(branch, code) => match code {
                        Code::Continue => next.push(branch),
                        Code::Return => returned.push(branch),
                        Code::Accept => ended.push((branch, Verdict::Continue)),
                        Code::Drop => ended.push((branch, Verdict::Drop)),
                        Code::Jump(chain) => next.extend(self.run_chain(node, &chain, branch, ended)),
                        Code::Goto(chain) => returned.extend(self.run_chain(node, &chain, branch, ended)),
                    },
                }
            }
            live = next;
        }
        returned.extend(live);
        returned
    }
}

fn point(entry: Entry) -> HookPoint {
    match entry {
        Entry::Prerouting => HookPoint::Prerouting,
        Entry::Output => HookPoint::Output,
    }
}

fn is_filter(chain: &ChainHook, point: HookPoint) -> bool {
    chain.kind == ChainKind::Filter && chain.point == point
}

fn is_nat(chain: &ChainHook, point: HookPoint) -> bool {
    chain.kind == ChainKind::Nat && chain.point == point
}

impl Rules for Nftables {
    /// Accepting a packet in one base chain leaves it to the next; dropping it is final.
    fn run(&self, hook: Hook, node: &NodePlan, branch: Branch) -> Vec<(Branch, Verdict)> {
        let Some(table) = self.tables.get(&Family::of(branch.packet.destination)) else {
            return vec![(branch, Verdict::Continue)];
        };
        let mut outcomes = vec![(branch, Verdict::Continue)];
        for chain in table.base_chains(hook) {
            let mut next = Vec::new();
            for (branch, verdict) in outcomes {
                match verdict {
                    Verdict::Continue => {
                        let returned = table.run_chain(node, chain, branch, &mut next);
                        next.extend(returned.into_iter().map(|branch| (branch, Verdict::Continue)));
                    }
                    decided => next.push((branch, decided)),
                }
            }
            outcomes = next;
        }
        outcomes
    }
}

impl Frontends for Nftables {
    fn frontends(&self) -> Vec<PeerFrontend> {
        let of_table = |(family, table): (&Family, &Table)| {
            let vips = ["service-ips", "no-endpoint-services", "firewall-ips"];
            let node_ports = ["service-nodeports", "no-endpoint-nodeports"];
            let names = vips.iter().chain(&node_ports);
            let elements = names.filter_map(|name| table.sets.get(*name)).flat_map(Set::keys_and_names);
            elements.filter_map(|(key, service)| frontend(*family, key, service)).collect::<Vec<_>>()
        };
        self.tables.iter().flat_map(of_table).collect()
    }
}

/// Keys are an address, which node ports lack, a protocol and a port, each padded to four bytes.
fn frontend(family: Family, key: &[u8], service: String) -> Option<PeerFrontend> {
    let (address, rest) = key.split_at_checked(key.len().checked_sub(8)?)?;
    let protocol = Protocol::from_number(rest[0])?;
    let port = u16::from_be_bytes([rest[4], rest[5]]);
    let address = match address.len() {
        0 => FrontendAddress::NodePort(port),
        4 => FrontendAddress::Vip(IpAddr::from(<[u8; 4]>::try_from(address).ok()?), port),
        _ => FrontendAddress::Vip(IpAddr::from(<[u8; 16]>::try_from(address).ok()?), port),
    };
    Some(PeerFrontend { family, address, protocol, service })
}
