//! iptables mode compared with the recorded rules of the real kube-proxy for the same objects: the same chains with the
//! same rules, verbatim, except for intended differences.

use std::collections::{BTreeMap, BTreeSet};

use portolan_dataplane::iptables::{Iptables, listing};
use portolan_dataplane::render;
use portolan_dataplane::tables::save::parse_save;
use portolan_testkit::Scenario;

use crate::support::Session;

/// The API server creates this Service itself.
const KUBERNETES: &str = "\n---\napiVersion: v1\nkind: Service\nmetadata: {name: kubernetes, namespace: default}\n\
    spec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}\n";
/// The number of recordings, so that the loss of one fails.
const RECORDINGS: usize = 157;

/// Scenarios with intended differences.
const DIFFERENT: [(&str, &str); 5] = [
    ("source-ranges-with-the-node-and-the-address", "ranges inside others are put together"),
    ("source-ranges-with-blanks", "ranges inside others are put together"),
    ("same-address-twice-in-one-service", "an address has one rule, the stricter one"),
    ("external-ip-cannot-take-a-load-balancer-ip", "an address belongs to one Service"),
    ("external-ip-cannot-take-a-cluster-ip", "an address belongs to one Service"),
];

/// Rules by table and chain, each chain in its order.
type Chains = BTreeMap<(String, String), Vec<String>>;

fn chains(text: &str) -> Chains {
    let mut chains = Chains::new();
    for table in parse_save(text) {
        for chain in &table.chains {
            chains.entry((table.name.clone(), chain.clone())).or_default();
        }
        for rule in table.rules {
            chains.entry((table.name.clone(), rule.chain)).or_default().push(rule.text);
        }
    }
    chains
}

/// One per family, IPv4 first.
fn both(text: &str) -> [Chains; 2] {
    let (ipv4, ipv6) = text.split_once("# ip6tables-save").expect("both families are there");
    [chains(ipv4), chains(ipv6)]
}

fn recording(scenario: &str) -> Option<String> {
    let folder = crate::support::folder().join("../crates/shadow/tests/recorded");
    std::fs::read_to_string(folder.join(format!("{scenario}.iptables.txt"))).ok()
}

fn ours(scenario: &Scenario) -> String {
    let objects = &scenario.steps.last().expect("a scenario has a step").objects;
    let mut session = Session::new(scenario);
    let plan = session.step(&scenario.name, &format!("{objects}{KUBERNETES}")).clone();
    listing(&render(&Iptables::new(session.masquerade_bit), &plan))
}

const OF_SERVICES: [&str; 5] = ["KUBE-SEP-", "KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-"];
const WHOLE: [&str; 2] = ["KUBE-MARK-MASQ", "KUBE-POSTROUTING"];
const LISTS: [&str; 3] = ["KUBE-SERVICES", "KUBE-NODEPORTS", "PREROUTING"];

/// kube-proxy was recorded with node ports at all addresses, and with a counter for those at 127.0.0.1. It does not refuse
/// packets to ports that a Service does not have.
fn is_intended_difference(rule: &str) -> bool {
    let is_mark = rule.contains("kubernetes service addresses without such a port");
    rule.ends_with("-j KUBE-NODEPORTS") || rule.contains("-m nfacct") || is_mark
}

/// Chains of Services, and those with the same name and purpose, verbatim.
fn compare_nat(theirs: &Chains, ours: &Chains) -> Vec<String> {
    let is_nat = |(table, _): &&(String, String)| table == "nat";
    let mut found = Vec::new();
    let names: BTreeSet<&(String, String)> = theirs.keys().chain(ours.keys()).filter(is_nat).collect();
    for key in names {
        let of = |chains: &Chains| {
            let rules = chains.get(key).map_or(&[][..], Vec::as_slice);
            rules.iter().filter(|rule| !is_intended_difference(rule)).cloned().collect::<Vec<_>>()
        };
        let (mut theirs, mut ours) = (of(theirs), of(ours));
        if LISTS.contains(&key.1.as_str()) {
            theirs.sort();
            ours.sort();
        }
        let is_compared = OF_SERVICES.iter().any(|prefix| key.1.starts_with(prefix))
            || WHOLE.contains(&key.1.as_str())
            || LISTS.contains(&key.1.as_str());
        if is_compared && theirs != ours {
            found.push(format!("{}\n  kube-proxy {theirs:#?}\n  Portolan {ours:#?}", key.1));
        }
    }
    found
}

#[test]
fn chains_match_kube_proxy_verbatim() {
    let count = std::sync::atomic::AtomicUsize::new(0);
    crate::support::for_each_scenario(2, |scenario| {
        let Some(recorded) = recording(&scenario.name) else { return Ok(()) };
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let [theirs, ours] = [both(&recorded), both(&ours(scenario))];
        let found: Vec<String> =
            theirs.iter().zip(&ours).flat_map(|(theirs, ours)| compare_nat(theirs, ours)).collect();
        let is_meant = DIFFERENT.iter().any(|(name, _)| *name == scenario.name);
        match (found.is_empty(), is_meant) {
            (true, false) | (false, true) => Ok(()),
            (true, true) => Err("it is listed as different, and is the same".into()),
            (false, false) => Err(found.join("\n")),
        }
    });
    let count = count.into_inner();
    assert!(count == RECORDINGS || std::env::var_os("SCENARIO").is_some(), "{count} recordings");
}
