//! What HNS holds in the end, in a form in which two proxies can be compared: without identities, and in order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::Value;

/// A load balancer by its aspects, each as text.
type Balancer = BTreeMap<&'static str, String>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// By address, port and protocol.
    balancers: BTreeMap<String, Balancer>,
    /// Remote endpoints: address, hardware address and provider address.
    endpoints: BTreeSet<String>,
}

impl Outcome {
    /// The objects of a state, without the load balancers of these addresses.
    pub(crate) fn read(state: &Value, left_out: &[&str]) -> Self {
        let endpoints = list(state, "endpoints");
        let addresses: BTreeMap<String, String> =
            endpoints.iter().map(|it| (identity(&it["ID"]), address(it))).collect();
        let is_meant = |it: &&Value| !left_out.contains(&vip(it).as_str());
        let balancers = list(state, "balancers");
        Self {
            balancers: balancers.iter().filter(is_meant).map(|it| (front(it), balancer(it, &addresses))).collect(),
            endpoints: endpoints.iter().filter(|it| it["Flags"] == 1).map(remote).collect(),
        }
    }

    /// The kinds of differences, as `differences.txt` names them, and what they are. `self` is Portolan's.
    pub(crate) fn compare(&self, kube_proxy: &Self) -> BTreeMap<&'static str, Vec<String>> {
        let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
        let mut note = |kind, text: String| found.entry(kind).or_default().push(text);
        for (front, theirs) in &kube_proxy.balancers {
            match self.balancers.get(front) {
                None => note("fewer load balancers", format!("{front} {theirs:?}")),
                Some(ours) => theirs
                    .iter()
                    .filter(|(aspect, text)| ours.get(*aspect) != Some(text))
                    .for_each(|(aspect, text)| note(aspect, format!("{front}: {} instead of {text}", ours[aspect]))),
            }
        }
        let added = self.balancers.iter().filter(|(front, _)| !kube_proxy.balancers.contains_key(*front));
        added.for_each(|(front, ours)| note("more load balancers", format!("{front} {ours:?}")));
        kube_proxy.endpoints.difference(&self.endpoints).for_each(|it| note("fewer endpoints", it.clone()));
        self.endpoints.difference(&kube_proxy.endpoints).for_each(|it| note("more endpoints", it.clone()));
        found
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.balancers.is_empty() && self.endpoints.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.balancers.len() + self.endpoints.len()
    }
}

fn list<'a>(state: &'a Value, field: &str) -> &'a [Value] {
    state[field].as_array().map_or(&[], Vec::as_slice)
}

fn identity(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_lowercase()
}

/// Addresses of IPv6 have many spellings.
fn spelled(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.parse::<IpAddr>().map_or_else(|_| text.to_owned(), |it| it.to_string())
}

fn address(endpoint: &Value) -> String {
    spelled(&endpoint["IpConfigurations"][0]["IpAddress"])
}

fn remote(endpoint: &Value) -> String {
    let mac = endpoint["MacAddress"].as_str().unwrap_or_default().to_lowercase().replace(':', "-");
    let provider = spelled(&endpoint["Policies"][0]["Settings"]["ProviderAddress"]);
    format!("{} {mac} {provider}", address(endpoint)).trim().to_owned()
}

pub(crate) fn vip(balancer: &Value) -> String {
    spelled(&balancer["FrontendVIPs"][0])
}

fn front(balancer: &Value) -> String {
    let family = if balancer["Flags"].as_u64().unwrap_or(0) & 2 == 0 { 4 } else { 6 };
    let mapping = &balancer["PortMappings"][0];
    format!("IPv{family} [{}]:{}/{}", vip(balancer), mapping["ExternalPort"], mapping["Protocol"])
}

fn balancer(balancer: &Value, addresses: &BTreeMap<String, String>) -> Balancer {
    let mapping = &balancer["PortMappings"][0];
    let number = |value: &Value| value.as_u64().unwrap_or(0).to_string();
    let target = |id: &Value| addresses.get(&identity(id)).cloned().unwrap_or_else(|| "gone".to_owned());
    let targets: BTreeSet<String> = list(balancer, "HostComputeEndpoints").iter().map(target).collect();
    BTreeMap::from([
        ("targets", targets.into_iter().collect::<Vec<_>>().join(" ")),
        ("port", number(&mapping["InternalPort"])),
        ("flags", format!("{} {}", number(&balancer["Flags"]), number(&mapping["Flags"]))),
        ("distribution", number(&mapping["DistributionType"])),
        ("source", spelled(&balancer["SourceVIP"])),
    ])
}
