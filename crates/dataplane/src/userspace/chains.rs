//! What a node has even without Services: the four chains that lead to listeners, and those that refuse.

use portolan_model::Family;
use portolan_plan::FamilyPlan;

use crate::tables::node_ports::to_node_ports;
use crate::tables::refusals::{self, FORWARD_FIREWALL, FORWARD_JUMPS, INPUT_JUMPS, OUTPUT_JUMPS};
use crate::tables::rule::Rule;
use crate::tables::{Contents, Jump, Layout, Table, names};

/// For packets that arrive on an interface.
pub(super) const PORTALS_CONTAINER: &str = "KUBE-PORTALS-CONTAINER";
pub(super) const NODE_PORT_CONTAINER: &str = "KUBE-NODEPORT-CONTAINER";
/// For packets that the node itself sends.
pub(super) const PORTALS_HOST: &str = "KUBE-PORTALS-HOST";
pub(super) const NODE_PORT_HOST: &str = "KUBE-NODEPORT-HOST";

const PORTALS: &str = "handle ClusterIPs; NOTE: this must be before the NodePort rules";
const LAST_RULE: &str = "handle service NodePorts; NOTE: this must be the last rule in the chain";

/// The chain of node ports at the end of each chain of addresses.
const BEHIND: [(&str, &str); 2] = [(PORTALS_CONTAINER, NODE_PORT_CONTAINER), (PORTALS_HOST, NODE_PORT_HOST)];

const fn translation(from: &'static str, to: &'static str) -> Jump {
    Jump { table: Table::Nat, from, to, only_new: false, comment: PORTALS }
}

/// The chains of this mode.
pub(crate) fn layout() -> Layout {
    let lists = BEHIND.into_iter().flat_map(|(portals, node_ports)| [portals, node_ports]);
    let forward = [FORWARD_FIREWALL].into_iter().chain(FORWARD_JUMPS);
    let filter = INPUT_JUMPS.into_iter().chain(forward).chain(OUTPUT_JUMPS);
    let translations = [translation("PREROUTING", PORTALS_CONTAINER), translation("OUTPUT", PORTALS_HOST)];
    Layout {
        lists: lists.map(|list| (Table::Nat, list)).chain(refusals::LISTS).collect(),
        fixed: Vec::new(),
        prefixes: vec![(Table::Filter, names::Kind::Firewall.prefix())],
        jumps: filter.chain(translations).collect(),
        is_tail,
    }
}

fn is_tail(table: Table, list: &str, rule: &str) -> bool {
    match table {
        Table::Nat => node_ports_behind(list).is_some_and(|chain| rule.ends_with(chain)),
        Table::Filter => refusals::is_tail(list, rule),
        Table::Mangle => false,
    }
}

fn node_ports_behind(list: &str) -> Option<&'static str> {
    BEHIND.into_iter().find(|(portals, _)| *portals == list).map(|(_, node_ports)| node_ports)
}

pub(super) fn node(family: Family, plan: &FamilyPlan) -> Contents {
    layout().frame(family, |table, list| tail(family, plan, table, list))
}

fn tail(family: Family, plan: &FamilyPlan, table: Table, list: &str) -> Vec<Rule> {
    match (table, node_ports_behind(list)) {
        (Table::Filter, _) => refusals::tail(family, plan, list, None),
        (_, Some(chain)) => to_node_ports(family, plan, LAST_RULE, chain),
        (_, None) => Vec::new(),
    }
}
