//! Names that complete a question.

use portolan_model::{Service, Snapshot};
use serde::Serialize;

use crate::known::Known;

#[derive(Clone, Debug, Serialize)]
pub struct CandidatesAnswer {
    pub candidates: Vec<Candidate>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Candidate {
    /// As it is written in a question.
    pub value: String,
    pub label: String,
    pub detail: String,
}

impl Candidate {
    fn new(kind: &str, name: &str, detail: String) -> Self {
        Self { value: format!("{kind}/{name}"), label: format!("{kind} {name}"), detail }
    }
}

/// What is collected before the best are chosen: a single letter matches nearly everything.
const MOST_COLLECTED: usize = 2_000;

impl Known<'_> {
    pub fn candidates(&self, text: &str, for_destination: bool, limit: usize) -> CandidatesAnswer {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        let is_meant = |candidate: &Candidate| {
            let value = candidate.value.to_lowercase();
            words.iter().all(|word| value.contains(word.as_str()) || candidate.detail.contains(word.as_str()))
        };
        let facts = self.plan.facts();
        let services = facts.services.values().flat_map(|service| services(service, for_destination));
        let hosts = pods(facts).chain(nodes(facts));
        let mut found: Vec<Candidate> = match for_destination {
            true => services.chain(hosts).filter(is_meant).take(MOST_COLLECTED).collect(),
            false => hosts.chain([outside()]).chain(services.take(0)).filter(is_meant).take(MOST_COLLECTED).collect(),
        };
        let first = words.first().cloned().unwrap_or_default();
        found.sort_by_cached_key(|it| (rank(it, &first), it.value.len(), it.value.clone()));
        found.dedup();
        found.truncate(limit);
        CandidatesAnswer { candidates: found }
    }
}

/// A name that begins with the text comes first.
fn rank(candidate: &Candidate, text: &str) -> u8 {
    let name = candidate.value.rsplit('/').next().unwrap_or_default().to_lowercase();
    match () {
        () if name == text => 0,
        () if name.starts_with(text) => 1,
        () if candidate.value.to_lowercase().starts_with(text) => 2,
        () => 3,
    }
}

fn outside() -> Candidate {
    Candidate {
        value: "client-ip".into(),
        label: "client-ip".into(),
        detail: "any client outside of the cluster".into(),
    }
}

/// The Service, and each of its ports.
fn services(service: &Service, with_ports: bool) -> Vec<Candidate> {
    let name = service.name.to_string();
    let address = service.cluster_ips.first().map_or("no address".into(), ToString::to_string);
    let mut found = vec![Candidate::new("svc", &name, address.clone())];
    if with_ports && service.ports.len() > 1 {
        let port = |port: &portolan_model::ServicePort| match port.name.is_empty() {
            true => format!("{name}:{}", port.port),
            false => format!("{name}:{}", port.name),
        };
        found.extend(service.ports.iter().map(|it| Candidate::new("svc", &port(it), format!("{address}:{}", it.port))));
    }
    if service.ports.iter().any(|port| port.node_port.is_some()) {
        found.push(Candidate::new("nodeport", &name, "at the addresses of this node".into()));
    }
    let first = service.load_balancer_ips.first();
    found.extend(first.map(|address| Candidate::new("lb", &name, address.to_string())));
    found
}

fn pods(facts: &Snapshot) -> impl Iterator<Item = Candidate> {
    facts.slices.iter().flat_map(|(service, slices)| {
        let endpoints = slices.0.iter().flat_map(|slice| &slice.endpoints);
        endpoints.filter_map(move |endpoint| {
            let name = format!("{}/{}", service.namespace, endpoint.pod.as_ref()?);
            let node = endpoint.node().map_or(String::new(), |node| format!(" on {node}"));
            Some(Candidate::new("pod", &name, format!("{}{node}", endpoint.address)))
        })
    })
}

fn nodes(facts: &Snapshot) -> impl Iterator<Item = Candidate> {
    let here = &facts.node;
    let others = facts.nodes.iter().filter(|(name, _)| **name != here.name);
    let others = others.map(|(name, addresses)| (name, addresses.first()));
    let all = std::iter::once((&here.name, here.addresses.first())).chain(others);
    all.map(|(name, address)| Candidate::new("node", name, address.map_or(String::new(), ToString::to_string)))
}
