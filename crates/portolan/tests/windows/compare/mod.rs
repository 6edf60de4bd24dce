//! The objects of `portolan.exe` are those of the real `kube-proxy.exe`, for every scenario file, but for the differences in
//! `differences.txt`. `make test-windows-cluster` runs this.

mod calls;
mod listed;
mod marker;
mod outcome;
mod pair;

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
const REFUSED: &str = "refused";

#[test]
fn every_scenario_leads_to_the_objects_of_kube_proxy() {
    let scenarios = scenarios();
    let place = Place { network: json!({"Type": "L2Bridge"}), flags: &["--source-vip=192.168.50.1"], families: 2 };
    let pair = Pair::new(&place, &local_addresses(&scenarios));
    let client = pair.server.client_of(Identity::Admin).expect("a client");
    let mut comparison = Comparison::start(pair, &client);
    scenarios.iter().for_each(|scenario| comparison.run(scenario));
    comparison.conclude(&scenarios);
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
    pair: Pair,
    publisher: Publisher<'a>,
    marker: Marker,
    listed: Listed,
    /// How many objects were compared.
    objects: usize,
    /// By scenario.
    found: BTreeMap<String, Differences>,
    /// What a proxy left behind when the objects of a scenario were gone.
    leftovers: BTreeMap<String, String>,
}

impl<'a> Comparison<'a> {
    fn start(mut pair: Pair, client: &'a Client) -> Self {
        let mut publisher = Publisher::new(client);
        publisher.publish("").expect("the Node");
        let mut marker = Marker::create(client, pair.families).expect("the marker");
        marker.settle(&mut pair);
        let (found, leftovers) = (BTreeMap::new(), BTreeMap::new());
        Self { pair, publisher, marker, listed: Listed::read(), objects: 0, found, leftovers }
    }

    fn run(&mut self, scenario: &Scenario) {
        let differences = match self.publisher.publish(final_objects(scenario)) {
            Err(Error::Refused { code: 422, reason, .. }) => Differences::from([(REFUSED, vec![reason])]),
            Err(error) => panic!("{}: {error}", scenario.name),
            Ok(()) => self.compare(&scenario.name),
        };
        self.found.insert(scenario.name.clone(), differences);
        self.clear(&scenario.name);
    }

    fn compare(&mut self, scenario: &str) -> Differences {
        self.marker.settle(&mut self.pair);
        let listed = &self.listed;
        self.pair.comes_true(SETTLES_WITHIN, |pair| listed.allows(scenario, differences(pair).into_keys()));
        self.objects += outcome(&self.pair.portolan).len();
        differences(&self.pair)
    }

    /// What is left is removed, so that the next scenario starts with an empty HNS.
    fn clear(&mut self, scenario: &str) {
        self.publisher.publish("").expect("the removal of the objects");
        self.marker.settle(&mut self.pair);
        for side in [&self.pair.kube_proxy, &self.pair.portolan] {
            let left = outcome(side);
            if !left.is_empty() {
                self.leftovers.insert(format!("{scenario} {}", side.name), format!("{left:?}"));
                side.machine.set_state(swept(side.machine.state()));
            }
        }
    }

    /// # Panics
    /// When a difference is not listed, or a listed one does not occur.
    fn conclude(mut self, scenarios: &[Scenario]) {
        self.publisher.clear().expect("the removal of the Node");
        let different = self.found.values().filter(|it| !it.is_empty() && !it.contains_key(REFUSED)).count();
        let refused = self.found.values().filter(|it| it.contains_key(REFUSED)).count();
        let equal = self.found.len() - different - refused;
        println!("{equal} scenario files equal, {different} different, {refused} refused; {} objects", self.objects);
        for (left, what) in &self.leftovers {
            println!("left after {left}: {what}");
        }
        let is_wrong = |it: &(&String, &Differences)| !self.listed.allows(it.0, it.1.keys().copied());
        let wrong: Vec<String> =
            self.found.iter().filter(is_wrong).map(|it| format!("{}: {:#?}", it.0, it.1)).collect();
        assert!(wrong.is_empty(), "not as differences.txt says:\n{}", wrong.join("\n"));
        let unknown: Vec<&str> = self.listed.names().filter(|it| scenarios.iter().all(|s| s.name != *it)).collect();
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
        list.retain(|it| it["Flags"] != 1);
    }
    state
}
