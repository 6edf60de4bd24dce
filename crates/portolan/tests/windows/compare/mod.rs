//! The objects of `portolan.exe` are those of the real `kube-proxy.exe`, for every scenario file, but for the differences in
//! `differences.txt`. `make test-windows-cluster` runs this.

mod listed;
mod marker;
mod outcome;
pub(crate) mod pair;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use portolan_testkit::cluster::{Client, Identity, read_manifests};
use portolan_testkit::{Error, Scenario};
use serde_json::{Value, json};

use self::listed::Listed;
use self::marker::{ADDRESSES, Marker};
use self::outcome::Outcome;
use self::pair::{Pair, Place, Side};
use crate::publish::Publisher;

/// Changes of the Node come by a watch of their own, which the marker does not follow.
const SETTLES_WITHIN: Duration = Duration::from_secs(20);
/// What kube-proxy has not removed after several of its syncs stays.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);
const REFUSED: &str = "refused";
/// Scenarios with every kind of frontend and of policy.
const ON_AN_OVERLAY: [&str; 16] = [
    "both-policies-local",
    "cluster-ip",
    "cluster-ip-three-protocols-on-one-port",
    "dual-stack-every-frontend",
    "endpoints-outside-the-cluster",
    "external-ip",
    "external-policy-local",
    "external-policy-local-load-balancer",
    "external-policy-local-load-balancer-no-local-endpoints",
    "headless",
    "internal-policy-local",
    "load-balancer-ip",
    "load-balancer-udp",
    "node-port-udp-and-tcp",
    "session-affinity",
    "several-services-with-the-same-endpoints",
];

#[test]
fn every_scenario_leads_to_the_objects_of_kube_proxy() {
    // kube-proxy ignores this source on a bridge.
    let place = Place { network: json!({"Type": "L2Bridge"}), flags: &["--source-vip=192.168.50.1"], families: 2 };
    compare("", &place, &scenarios());
}

/// With the settings that are off otherwise.
#[test]
fn an_overlay_has_the_objects_of_kube_proxy() {
    let route = json!({
        "DestinationPrefix": "10.244.2.0/24", "IsolationId": 4096, "ProviderAddress": "192.168.50.2",
        "DistributedRouterMacAddress": "00-15-5d-00-00-02",
    });
    let network = json!({"Type": "Overlay", "Policies": [{"Type": "RemoteSubnetRoute", "Settings": route}]});
    let flags = &["--source-vip=10.244.1.254", "--enable-dsr=true", "--forward-healthcheck-vip=true"];
    let place = Place { network, flags, families: 1 };
    let scenarios: Vec<Scenario> = scenarios().into_iter().filter(|it| ON_AN_OVERLAY.contains(&&*it.name)).collect();
    compare("overlay: ", &place, &scenarios);
}

fn compare(prefix: &'static str, place: &Place, scenarios: &[Scenario]) {
    let pair = Pair::new(place, &local_addresses(scenarios));
    let client = pair.server.client_of(Identity::Admin).expect("a client");
    let mut comparison = Comparison::start(prefix, pair, &client);
    scenarios.iter().for_each(|scenario| comparison.run(scenario));
    comparison.conclude();
}

fn scenarios() -> Vec<Scenario> {
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let all = Scenario::all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios")).expect("scenario files");
    all.into_iter().filter(|it| it.name.contains(&wanted)).collect()
}

fn final_objects(scenario: &Scenario) -> &str {
    &scenario.steps.last().expect("a step").objects
}

/// The addresses of the node's pods: those of the lab, and others in its ranges that a scenario has.
fn local_addresses(scenarios: &[Scenario]) -> Vec<String> {
    let lab = ["10.244.1.2", "10.244.1.3", "10.244.1.4", "fd00:10:244:1::2", "fd00:10:244:1::3", "fd00:10:244:1::4"];
    let mut addresses: BTreeSet<String> = lab.iter().map(|it| (*it).to_owned()).collect();
    for document in scenarios.iter().filter_map(|it| read_manifests(final_objects(it)).ok()).flatten() {
        let endpoints = document["endpoints"].as_array().cloned().unwrap_or_default();
        let here = endpoints.iter().filter(|it| it["nodeName"] == "node-a");
        let here = here.filter_map(|it| it["addresses"][0].as_str()).filter(|it| is_of_a_pod(it));
        addresses.extend(here.map(str::to_owned));
    }
    addresses.into_iter().collect()
}

fn is_of_a_pod(address: &str) -> bool {
    address.starts_with("10.244.1.") || address.starts_with("fd00:10:244:1:")
}

/// By kind, as `differences.txt` names them.
type Differences = BTreeMap<&'static str, Vec<String>>;

struct Comparison<'a> {
    /// Of the names of scenarios in `differences.txt`.
    prefix: &'static str,
    pair: Pair,
    publisher: Publisher<'a>,
    marker: Marker,
    listed: Listed,
    /// How many objects were compared.
    objects: usize,
    /// By scenario.
    found: BTreeMap<String, Differences>,
    /// What kube-proxy left behind when the objects of a scenario were gone.
    leftovers: BTreeMap<String, String>,
}

impl<'a> Comparison<'a> {
    fn start(prefix: &'static str, mut pair: Pair, client: &'a Client) -> Self {
        let mut publisher = Publisher::new(client);
        publisher.publish("").expect("the Node");
        let mut marker = Marker::create(client, pair.families).expect("the marker");
        marker.settle(&mut pair);
        let (found, leftovers) = (BTreeMap::new(), BTreeMap::new());
        Self { prefix, pair, publisher, marker, listed: Listed::read(), objects: 0, found, leftovers }
    }

    fn run(&mut self, scenario: &Scenario) {
        let name = format!("{}{}", self.prefix, scenario.name);
        let differences = match self.publisher.publish(final_objects(scenario)) {
            Err(Error::Refused { code: 422, reason, .. }) => Differences::from([(REFUSED, vec![reason])]),
            Err(error) => panic!("{name}: {error}"),
            Ok(()) => self.compare(&name),
        };
        self.clear(&name);
        self.found.insert(name, differences);
    }

    fn compare(&mut self, scenario: &str) -> Differences {
        self.marker.settle(&mut self.pair);
        let listed = &self.listed;
        self.pair.comes_true(SETTLES_WITHIN, |pair| listed.allows(scenario, differences(pair).into_keys()));
        self.objects += outcome(&self.pair.portolan).len();
        differences(&self.pair)
    }

    /// What kube-proxy leaves is removed, so that the next scenario starts with an empty HNS.
    fn clear(&mut self, scenario: &str) {
        self.publisher.publish("").expect("the removal of the objects");
        self.marker.settle(&mut self.pair);
        let are_empty = |pair: &Pair| outcome(&pair.portolan).is_empty() && outcome(&pair.kube_proxy).is_empty();
        self.pair.comes_true(LEAVES_WITHIN, are_empty);
        assert!(outcome(&self.pair.portolan).is_empty(), "left: {:?}", outcome(&self.pair.portolan));
        let theirs = &self.pair.kube_proxy;
        if !outcome(theirs).is_empty() {
            self.leftovers.insert(scenario.to_owned(), format!("{:?}", outcome(theirs)));
            theirs.machine.set_state(swept(theirs.machine.state()));
        }
    }

    /// # Panics
    /// When a difference is not listed, or a listed one does not occur.
    fn conclude(mut self) {
        self.publisher.clear().expect("the removal of the Node");
        let different = self.found.values().filter(|it| !it.is_empty() && !it.contains_key(REFUSED)).count();
        let refused = self.found.values().filter(|it| it.contains_key(REFUSED)).count();
        let equal = self.found.len() - different - refused;
        println!("{equal} scenario files equal, {different} different, {refused} refused; {} objects", self.objects);
        for (left, what) in &self.leftovers {
            println!("left by kube-proxy after {left}: {what}");
        }
        let is_wrong = |it: &(&String, &Differences)| !self.listed.allows(it.0, it.1.keys().copied());
        let wrong: Vec<String> =
            self.found.iter().filter(is_wrong).map(|it| format!("{}: {:#?}", it.0, it.1)).collect();
        assert!(wrong.is_empty(), "not as differences.txt says:\n{}", wrong.join("\n"));
        let is_of_these = |it: &&str| it.contains(": ") != self.prefix.is_empty() && it.starts_with(self.prefix);
        let unknown: Vec<&str> =
            self.listed.names().filter(is_of_these).filter(|it| !self.found.contains_key(*it)).collect();
        assert!(unknown.is_empty() || std::env::var_os("SCENARIO").is_some(), "no such scenario: {unknown:?}");
    }
}

fn outcome(side: &Side) -> Outcome {
    Outcome::read(&side.machine.state(), &ADDRESSES)
}

fn differences(pair: &Pair) -> Differences {
    outcome(&pair.portolan).compare(&outcome(&pair.kube_proxy))
}

/// The state without remote endpoints, and with the load balancers of the marker alone.
fn swept(mut state: Value) -> Value {
    if let Some(list) = state["balancers"].as_array_mut() {
        list.retain(|it| ADDRESSES.contains(&outcome::vip(it).as_str()));
    }
    if let Some(list) = state["endpoints"].as_array_mut() {
        list.retain(|it| it["Flags"] != 1 || ADDRESSES.contains(&outcome::address(it).as_str()));
    }
    state
}
