//! The lab's hosts as objects of the cluster, and manifests as JSON.

use serde_json::{Value, json};

use crate::error::Error;
use crate::topology::{HOSTS, HostAddresses};

/// The Node object of a node of the lab.
///
/// # Panics
/// When the topology has no such host.
pub fn node(name: &str) -> Value {
    let host = crate::topology::by_name(name).unwrap_or_else(|| panic!("`{name}` is not a host of the lab"));
    let subnet = if name == "node-a" { 1 } else { 2 };
    let ranges = [format!("10.244.{subnet}.0/24"), format!("fd00:10:244:{subnet}::/64")];
    let address = |address: String| json!({"type": "InternalIP", "address": address});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"podCIDR": ranges[0], "podCIDRs": ranges},
        "status": {"addresses": [address(host.ipv4[0].to_string()), address(host.ipv6[0].to_string())]},
    })
}

/// The Pod objects of the lab's pods, each running, and labelled with its name.
pub fn pods() -> Vec<Value> {
    HOSTS.iter().filter(|host| host.name.starts_with("pod-")).map(pod).collect()
}

fn pod(host: &HostAddresses) -> Value {
    let node = if host.name.starts_with("pod-a") { "node-a" } else { "node-b" };
    let (ipv4, ipv6) = (host.ipv4[0].to_string(), host.ipv6[0].to_string());
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": host.name, "namespace": "default", "labels": {"pod": host.name}},
        "spec": {"nodeName": node, "containers": [{"name": "server", "image": "none"}]},
        "status": {
            "phase": "Running",
            "podIP": ipv4,
            "podIPs": [{"ip": ipv4}, {"ip": ipv6}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// The documents of a manifest as JSON.
pub fn read_manifests(text: &str) -> Result<Vec<Value>, Error> {
    let values: Vec<Value> =
        portolan_yaml::read_all(text).map_err(|error| Error::Manifest { reason: error.to_string() })?;
    Ok(values.into_iter().filter(|value| !value.is_null()).collect())
}
