//! What commands need of pods and nodes.

use std::net::IpAddr;

use crate::spec;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodObject {
    pub namespace: String,
    pub name: String,
    /// `None` until it is scheduled.
    pub node: Option<String>,
    pub phase: String,
    /// It is ready, and does not end.
    pub is_ready: bool,
    pub addresses: Vec<IpAddr>,
    pub containers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeObject {
    pub name: String,
    pub is_linux: bool,
}

impl From<spec::Pod> for PodObject {
    fn from(pod: spec::Pod) -> Self {
        let mut conditions = pod.status.conditions.iter();
        let has_become_ready = conditions.any(|it| it.r#type == "Ready" && it.status == "True");
        let is_ready = has_become_ready && pod.metadata.deletion_timestamp.is_none();
        let spec::PodStatus { phase, pod_ip, pod_ips, .. } = pod.status;
        // The list begins with the single address.
        let texts: Vec<String> = if pod_ips.is_empty() { vec![pod_ip] } else { texts(pod_ips) };
        let addresses: Vec<IpAddr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
        Self {
            namespace: pod.metadata.namespace,
            name: pod.metadata.name,
            node: Some(pod.spec.node_name).filter(|name| !name.is_empty()),
            phase,
            is_ready,
            addresses,
            containers: pod.spec.containers.into_iter().map(|container| container.name).collect(),
        }
    }
}

fn texts(addresses: Vec<spec::PodIp>) -> Vec<String> {
    addresses.into_iter().map(|it| it.ip).collect()
}

impl From<spec::Identity> for NodeObject {
    fn from(node: spec::Identity) -> Self {
        let is_linux = node.metadata.label("kubernetes.io/os").is_none_or(|system| system == "linux");
        Self { name: node.metadata.name, is_linux }
    }
}
