//! Rules that jump to the chain of node ports, for the addresses of the node that serve them.

use std::net::{IpAddr, Ipv4Addr};

use portolan_model::{Family, IpNet};
use portolan_plan::{FamilyPlan, NodePortMatch};

use super::rule::{Rule, RuleBuilder, rule};

/// A match on the node's addresses, without its comment.
struct ToNode {
    builder: RuleBuilder,
    any_local: bool,
}

impl ToNode {
    fn comment_and_jump(self, comment: &str, chain: &str) -> Rule {
        let builder = self.builder.comment(comment);
        let builder = if self.any_local { builder.sent_to_node() } else { builder };
        builder.jump(chain)
    }
}

pub(crate) fn to_node_ports(family: Family, plan: &FamilyPlan, comment: &str, chain: &str) -> Vec<Rule> {
    matches(family, plan).into_iter().map(|it| it.comment_and_jump(comment, chain)).collect()
}

fn matches(family: Family, plan: &FamilyPlan) -> Vec<ToNode> {
    let one = |address: IpAddr| ToNode { builder: rule().destination(address.into()), any_local: false };
    match &plan.node_ports {
        NodePortMatch::AnyLocal => {
            let builder = if plan.loopback_node_ports { rule() } else { rule().destination_not(loopback(family)) };
            vec![ToNode { builder, any_local: true }]
        }
        NodePortMatch::Only(addresses) => {
            let own = addresses.iter().copied().filter(move |address| Family::of(*address) == family);
            let loopback = plan.loopback_node_ports.then_some(Ipv4Addr::LOCALHOST.into());
            own.chain(loopback).map(one).collect()
        }
    }
}

pub(crate) fn loopback(family: Family) -> IpNet {
    let text = if family == Family::V4 { "127.0.0.0/8" } else { "::1/128" };
    text.parse().expect("a constant range is well formed")
}
