//! The rules, whose number does not depend on Services: masquerade, drop and refuse, by IP sets.

use portolan_model::{Family, IpNet, Protocol};
use portolan_plan::{FamilyPlan, NodePlan, Reason};

use super::Ipvs;
use super::sets::{SetKind, SetName};
use crate::tables::names::{CLUSTER_IPS, FORWARD, MARK_MASQUERADE, POSTROUTING, PROXY_FIREWALL, SERVICES};
use crate::tables::node_ports::loopback;
use crate::tables::refusals::{PORTALS, words};
use crate::tables::rule::{Rule, RuleBuilder, rule};
use crate::tables::{Contents, Jump, Key, Layout, Place, Table, Value};

const LOAD_BALANCER: &str = "KUBE-LOAD-BALANCER";
const NODE_PORT: &str = "KUBE-NODE-PORT";
const SOURCE_RANGES: &str = "KUBE-SOURCE-RANGES-FIREWALL";
const IPVS_FILTER: &str = "KUBE-IPVS-FILTER";

const FIREWALL: &str = "kube-proxy firewall rules";

const fn jump(table: Table, from: &'static str, to: &'static str, only_new: bool, comment: &'static str) -> Jump {
    Jump { table, from, to, only_new, comment }
}

/// For packets that the node itself sends, IPVS stands between the tables mangle and filter, so these must be stopped
/// in mangle.
const JUMPS: [Jump; 10] = [
    jump(Table::Mangle, "OUTPUT", PROXY_FIREWALL, true, FIREWALL),
    jump(Table::Filter, "INPUT", PROXY_FIREWALL, true, FIREWALL),
    jump(Table::Filter, "INPUT", NODE_PORT, false, "kubernetes health check rules"),
    jump(Table::Filter, "INPUT", IPVS_FILTER, false, "kubernetes ipvs access filter"),
    jump(Table::Filter, "FORWARD", FORWARD, false, "kubernetes forwarding rules"),
    jump(Table::Filter, "FORWARD", CLUSTER_IPS, true, PORTALS),
    jump(Table::Filter, "OUTPUT", CLUSTER_IPS, true, PORTALS),
    jump(Table::Nat, "PREROUTING", SERVICES, false, PORTALS),
    jump(Table::Nat, "OUTPUT", SERVICES, false, PORTALS),
    jump(Table::Nat, "POSTROUTING", POSTROUTING, false, "kubernetes postrouting rules"),
];

const CHAINS: [(Table, &str); 13] = [
    (Table::Mangle, PROXY_FIREWALL),
    (Table::Mangle, SOURCE_RANGES),
    (Table::Filter, PROXY_FIREWALL),
    (Table::Filter, SOURCE_RANGES),
    (Table::Filter, NODE_PORT),
    (Table::Filter, IPVS_FILTER),
    (Table::Filter, FORWARD),
    (Table::Filter, CLUSTER_IPS),
    (Table::Nat, SERVICES),
    (Table::Nat, LOAD_BALANCER),
    (Table::Nat, NODE_PORT),
    (Table::Nat, POSTROUTING),
    (Table::Nat, MARK_MASQUERADE),
];

/// The chains of this mode.
pub(crate) fn layout() -> Layout {
    Layout {
        lists: Vec::new(),
        fixed: CHAINS.to_vec(),
        prefixes: Vec::new(),
        jumps: JUMPS.to_vec(),
        is_tail: |_, _, _| false,
    }
}

pub(super) fn node(mode: &Ipvs, node: &NodePlan, family: Family) -> Contents {
    let chains = Chains { mode, node, family, plan: node.family(family) };
    let mut contents = layout().frame(family, |_, _| Vec::new());
    contents.extend(
        CHAINS.map(|(table, name)| {
            (Key::Chain(Place::new(family, table, name)), Value::rules(chains.rules(table, name)))
        }),
    );
    contents
}

struct Chains<'a> {
    mode: &'a Ipvs,
    node: &'a NodePlan,
    family: Family,
    plan: &'a FamilyPlan,
}

/// A rule that matches a set; `parts` names the fields of the packet that are looked up.
trait InSet {
    fn in_set(self, name: SetName, parts: &str) -> Self;
}

impl InSet for RuleBuilder {
    fn in_set(self, name: SetName, parts: &str) -> Self {
        self.words(&format!("-m set --match-set {name} {parts}"))
    }
}

/// Destination address and port.
const DESTINATION: &str = "dst,dst";

impl Chains<'_> {
    fn rules(&self, table: Table, chain: &str) -> Vec<Rule> {
        match (table, chain) {
            (Table::Nat, SERVICES) => self.services(),
            (Table::Nat, LOAD_BALANCER) => self.load_balancer(),
            (Table::Nat, NODE_PORT) => [Protocol::Tcp, Protocol::Udp, Protocol::Sctp]
                .into_iter()
                .flat_map(|protocol| self.node_ports(protocol))
                .collect(),
            (Table::Nat, POSTROUTING) => self.postrouting(),
            (Table::Nat, MARK_MASQUERADE) => {
                let mark = self.mode.mark;
                vec![rule().words(&format!("-j MARK --set-xmark {mark:#x}/{mark:#x}")).done()]
            }
            (Table::Filter, FORWARD) => self.forward(),
            (Table::Filter, NODE_PORT) => vec![self.health_checks("ACCEPT")],
            (Table::Filter, IPVS_FILTER) => self.access_filter(),
            (Table::Filter, CLUSTER_IPS) => self.unallocated(),
            (_, PROXY_FIREWALL) => self.firewall(table),
            (_, SOURCE_RANGES) => self.source_ranges(),
            _ => Vec::new(),
        }
    }

    fn set(&self, kind: SetKind) -> SetName {
        SetName { family: self.family, kind }
    }

    fn services(&self) -> Vec<Rule> {
        let mut rules = vec![
            rule().source(loopback(self.family)).jump("RETURN"),
            rule()
                .comment("Kubernetes service lb portal")
                .in_set(self.set(SetKind::LoadBalancer), DESTINATION)
                .jump(LOAD_BALANCER),
            self.cluster_ips(),
            rule()
                .comment("Kubernetes service external ip + port for masquerade and filter purpose")
                .in_set(self.set(SetKind::ExternalIp), DESTINATION)
                .jump(MARK_MASQUERADE),
        ];
        rules.push(self.by_node(
            "Kubernetes service external ip + port with externalTrafficPolicy=local",
            rule(),
            SetKind::ExternalIpLocal,
            DESTINATION,
        ));
        // A port of a Service may have the number of a node port.
        let not_bound = format!("-m set ! --match-set {} dst", self.set(SetKind::IpvsIps));
        rules.push(rule().words(&not_bound).sent_to_node().jump(NODE_PORT));
        let accepted = [SetKind::ClusterIp, SetKind::LoadBalancer];
        rules.extend(accepted.map(|kind| rule().in_set(self.set(kind), DESTINATION).jump("ACCEPT")));
        rules
    }

    /// Without a pod detector, the node's own packets are masqueraded only if the kernel took the Service's address as
    /// their source: the device makes it one of the node's own addresses.
    fn cluster_ips(&self) -> Rule {
        let about =
            |builder: RuleBuilder| builder.comment("Kubernetes service cluster ip + port for masquerade purpose");
        let set = self.set(SetKind::ClusterIp);
        let builder = match &self.plan.pods {
            _ if self.node.masquerade_all => about(rule()).in_set(set, DESTINATION),
            Some(pods) => about(rule().of_pods(pods, false)).in_set(set, DESTINATION),
            None => about(rule()).in_set(set, "src,dst"),
        };
        builder.jump(MARK_MASQUERADE)
    }

    /// Masquerades what the node itself sends to an address that preserves client addresses.
    fn by_node(&self, comment: &str, builder: RuleBuilder, kind: SetKind, parts: &str) -> Rule {
        let builder = self.plan.pods.iter().fold(builder, |builder, pods| builder.of_pods(pods, false));
        builder.comment(comment).in_set(self.set(kind), parts).sent_by_node().jump(MARK_MASQUERADE)
    }

    fn load_balancer(&self) -> Vec<Rule> {
        let comment = "Kubernetes service load balancer ip + port with externalTrafficPolicy=local";
        let local = SetKind::LoadBalancerLocal;
        vec![
            self.by_node(comment, rule(), local, DESTINATION),
            rule().comment(comment).in_set(self.set(local), DESTINATION).jump("RETURN"),
            rule().jump(MARK_MASQUERADE),
        ]
    }

    fn node_ports(&self, protocol: Protocol) -> [Rule; 3] {
        let (all, local) = SetKind::of_node_ports(protocol);
        let name = protocol.to_string().to_uppercase();
        let parts = if protocol == Protocol::Sctp { DESTINATION } else { "dst" };
        let kept = format!("Kubernetes nodeport {name} port with externalTrafficPolicy=local");
        let masqueraded = format!("Kubernetes nodeport {name} port for masquerade purpose");
        let about = || rule().protocol(protocol);
        [
            self.by_node(&kept, about(), local, parts),
            about().comment(&kept).in_set(self.set(local), parts).jump("RETURN"),
            about().comment(&masqueraded).in_set(self.set(all), parts).jump(MARK_MASQUERADE),
        ]
    }

    fn postrouting(&self) -> Vec<Rule> {
        let mark = self.mode.mark;
        vec![
            rule()
                .comment("Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose")
                .in_set(self.set(SetKind::LoopBack), "dst,dst,src")
                .jump("MASQUERADE"),
            rule().words(&format!("-m mark ! --mark {mark:#x}/{mark:#x}")).jump("RETURN"),
            rule().words(&format!("-j MARK --set-xmark {mark:#x}/0x0")).done(),
            rule().comment("kubernetes service traffic requiring SNAT").words("-j MASQUERADE --random-fully").done(),
        ]
    }

    fn forward(&self) -> Vec<Rule> {
        let mark = self.mode.mark;
        let marked =
            rule().comment("kubernetes forwarding rules").words(&format!("-m mark --mark {mark:#x}/{mark:#x}"));
        let established =
            rule().comment("kubernetes forwarding conntrack rule").words("-m conntrack --ctstate RELATED,ESTABLISHED");
        vec![marked.jump("ACCEPT"), established.jump("ACCEPT")]
    }

    fn health_checks(&self, target: &str) -> Rule {
        let set = self.set(SetKind::HealthCheckNodePort);
        rule().comment("Kubernetes health check node port").in_set(set, "dst").jump(target)
    }

    fn firewall(&self, table: Table) -> Vec<Rule> {
        let comment = format!("kubernetes service {}", words(Reason::NoLocalEndpoints));
        let mut rules = vec![
            rule()
                .comment("Kubernetes service load balancer ip + port for load balancer with sourceRange")
                .in_set(self.set(SetKind::LoadBalancerFirewall), DESTINATION)
                .jump(SOURCE_RANGES),
            rule().comment(&comment).in_set(self.set(SetKind::NoLocalEndpoints), DESTINATION).jump("DROP"),
        ];
        // The node itself is not an external source.
        if table == Table::Filter {
            let builder = self.plan.pods.iter().fold(rule(), |builder, pods| builder.of_pods(pods, false));
            let outside = builder.comment(&comment).in_set(self.set(SetKind::NoLocalOutside), DESTINATION);
            rules.push(outside.words("-m addrtype ! --src-type LOCAL").jump("DROP"));
        }
        rules
    }

    fn source_ranges(&self) -> Vec<Rule> {
        let allowed = [SetKind::LoadBalancerSourceCidr, SetKind::LoadBalancerSourceIp];
        let allow = allowed.map(|kind| rule().in_set(self.set(kind), "dst,dst,src").jump("RETURN"));
        allow.into_iter().chain([rule().comment(NOT_ALLOWED).jump("DROP")]).collect()
    }

    /// A packet that gets this far matches no Service, and would reach a process of the node through a Service address.
    fn access_filter(&self) -> Vec<Rule> {
        let served = [SetKind::LoadBalancer, SetKind::ClusterIp, SetKind::ExternalIp, SetKind::ExternalIpLocal];
        let mut rules: Vec<Rule> = served.map(|kind| rule().in_set(self.set(kind), DESTINATION).jump("RETURN")).into();
        rules.push(self.health_checks("RETURN"));
        let comment = format!("kubernetes service address that {}", words(Reason::UnknownPort));
        let refused = rule().comment(&comment).new_connections().in_set(self.set(SetKind::IpvsIps), "dst");
        rules.push(refused.reject(self.family));
        rules
    }

    fn unallocated(&self) -> Vec<Rule> {
        let bound = rule().in_set(self.set(SetKind::IpvsIps), "dst").jump("RETURN");
        let comment = words(Reason::UnallocatedAddress);
        let drop = |range: &IpNet| rule().destination(*range).comment(comment).jump("DROP");
        [bound].into_iter().chain(self.plan.service_ranges.iter().map(drop)).collect()
    }
}

/// The tracer recognises the reason by this comment.
pub(super) const NOT_ALLOWED: &str = "kubernetes service source that is not allowed";
