//! Which iptables chains and rules belong to a service proxy, and which can be removed without breaking foreign rules.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

/// The jumps of one iptables table. `Id` names a rule so that it can be deleted.
#[derive(Clone, Debug)]
pub(super) struct Table<Id> {
    pub(super) name: String,
    pub(super) chains: BTreeSet<String>,
    pub(super) rules: Vec<Rule<Id>>,
    /// Chains of the active mode, whichever proxy created them.
    pub(super) spared: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub(super) struct Rule<Id> {
    pub(super) chain: String,
    pub(super) id: Id,
    pub(super) target: Option<String>,
}

/// What to delete from one table, in this order: rules in foreign chains, then whole chains.
#[derive(Clone, Debug)]
pub(super) struct Removal<Id> {
    pub(super) table: String,
    pub(super) jumps: Vec<(String, Id)>,
    pub(super) chains: Vec<String>,
    /// Chains that must stay, each with the foreign chain that uses it.
    pub(super) kept: BTreeMap<String, String>,
}

impl<Id> Removal<Id> {
    pub(super) fn is_empty(&self) -> bool {
        self.jumps.is_empty() && self.chains.is_empty()
    }
}

/// The tables in which kube-proxy keeps anything.
pub(super) const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// Chains with these names, by table; all modes together.
const NAT_CHAINS: [&str; 12] = [
    "KUBE-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-MARK-MASQ",
    "KUBE-PROXY-CANARY",
    "KUBE-NODE-PORT",
    "KUBE-LOAD-BALANCER",
    "KUBE-FIRE-WALL",
    // userspace mode, ours and that of kube-proxy before 1.26.
    "KUBE-PORTALS-CONTAINER",
    "KUBE-NODEPORT-CONTAINER",
    "KUBE-PORTALS-HOST",
    "KUBE-NODEPORT-HOST",
];
const FILTER_CHAINS: [&str; 12] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FORWARD",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
    "KUBE-PROXY-CANARY",
    "KUBE-NODE-PORT",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
    // Only in our own modes.
    "KUBE-CLUSTER-IPS",
    "KUBE-NODEPORTS-REFUSED",
];
/// The last two belong to our own ipvs mode.
const MANGLE_CHAINS: [&str; 3] = ["KUBE-PROXY-CANARY", "KUBE-PROXY-FIREWALL", "KUBE-SOURCE-RANGES-FIREWALL"];
/// Chains of single Services and endpoints, all in the table nat; `KUBE-XLB-` is from before Kubernetes 1.24.
const NAT_PREFIXES: [&str; 6] = ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-", "KUBE-XLB-"];

/// Our own iptables mode has chains of single Services in the table filter, too.
const FIREWALL_PREFIX: &str = "KUBE-FW-";

/// The chains that kube-proxy hooks its own into.
const HOOKS: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];
/// CNI plugins and old kubelets jump to this chain, also from built-in chains.
const MARK: &str = "KUBE-MARK-MASQ";

pub(super) fn is_kube_proxys(table: &str, chain: &str) -> bool {
    match table {
        "nat" => NAT_CHAINS.contains(&chain) || NAT_PREFIXES.iter().any(|prefix| chain.starts_with(prefix)),
        "filter" => FILTER_CHAINS.contains(&chain) || chain.starts_with(FIREWALL_PREFIX),
        "mangle" => MANGLE_CHAINS.contains(&chain),
        _ => false,
    }
}

impl<Id> Table<Id> {
    /// Whether a mode of Portolan created it.
    pub(super) fn is_ours(&self) -> bool {
        self.name == "filter" && self.chains.contains("KUBE-CLUSTER-IPS")
    }

    pub(super) fn has_chains(&self) -> bool {
        self.chains.iter().any(|chain| is_kube_proxys(&self.name, chain))
    }
}

impl<Id: Clone> Table<Id> {
    pub(super) fn removal(&self) -> Removal<Id> {
        let kept = self.needed_by_others();
        let jumps = self.rules.iter().filter(|rule| self.is_kube_proxys_jump(rule));
        let jumps = jumps.map(|rule| (rule.chain.clone(), rule.id.clone())).collect();
        let chains = self.chains.iter().filter(|chain| self.owns(chain) && !kept.contains_key(*chain));
        Removal { table: self.name.clone(), jumps, chains: chains.cloned().collect(), kept }
    }

    /// Whether it serves Services: the hooked chain has rules besides the jump to node ports, or Services without
    /// endpoints are refused.
    pub(super) fn has_services(&self) -> bool {
        let is_hooked = self.rules.iter().any(|rule| self.is_kube_proxys_jump(rule) && targets(rule, "KUBE-SERVICES"));
        let is_service = |rule: &Rule<Id>| {
            matches!(rule.chain.as_str(), "KUBE-SERVICES" | "KUBE-EXTERNAL-SERVICES")
                && !targets(rule, "KUBE-NODEPORTS")
        };
        is_hooked && self.rules.iter().any(is_service)
    }

    fn owns(&self, chain: &str) -> bool {
        is_kube_proxys(&self.name, chain) && !self.spared.contains(chain)
    }

    /// Jumps from built-in chains to a proxy's chains. Only proxies create these.
    fn is_kube_proxys_jump(&self, rule: &Rule<Id>) -> bool {
        HOOKS.contains(&rule.chain.as_str())
            && rule.target.as_deref().is_some_and(|target| self.owns(target) && target != MARK)
    }

    /// A foreign rule that jumps to a proxy's chain keeps working: that chain stays, and so do the chains that it jumps
    /// to.
    fn needed_by_others(&self) -> BTreeMap<String, String> {
        let mut needed = BTreeMap::new();
        let foreign = self.rules.iter().filter(|rule| !self.owns(&rule.chain) && !self.is_kube_proxys_jump(rule));
        let mut open: Vec<(String, String)> = foreign.filter_map(|rule| self.owned_target(rule, &rule.chain)).collect();
        while let Some((chain, user)) = open.pop() {
            if needed.contains_key(&chain) {
                continue;
            }
            let onward = self.rules.iter().filter(|rule| rule.chain == chain);
            open.extend(onward.filter_map(|rule| self.owned_target(rule, &user)));
            needed.insert(chain, user);
        }
        needed
    }

    fn owned_target(&self, rule: &Rule<Id>, user: &str) -> Option<(String, String)> {
        let target = rule.target.as_ref().filter(|target| self.owns(target))?;
        Some((target.clone(), user.to_owned()))
    }
}

fn targets<Id>(rule: &Rule<Id>, chain: &str) -> bool {
    rule.target.as_deref() == Some(chain)
}
