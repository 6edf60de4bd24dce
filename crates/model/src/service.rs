//! A Service, after defaulting and validation.

use std::net::IpAddr;

use ipnet::IpNet;
use std::sync::Arc;

use crate::{Balancing, Protocol, ServiceName};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: ServiceName,
    pub kind: ServiceKind,
    /// At most one per family. Empty for headless and ExternalName Services, which get no rules.
    pub cluster_ips: Box<[IpAddr]>,
    pub ports: Box<[ServicePort]>,
    pub external_ips: Box<[IpAddr]>,
    /// Ingress addresses whose traffic arrives with the address as its destination (`ipMode: VIP`).
    pub load_balancer_ips: Box<[IpAddr]>,
    pub source_ranges: Box<[IpNet]>,
    pub internal_policy: TrafficPolicy,
    pub external_policy: TrafficPolicy,
    /// Session affinity by client address, with its sliding timeout in seconds.
    pub affinity_seconds: Option<u32>,
    /// How IPVS picks an endpoint, where the mode has a choice (annotation `portolan.io/scheduler`).
    pub scheduler: Option<Arc<str>>,
    /// Annotation `preserve-destination`, which concerns nodes with a virtual switch.
    pub preserve_destination: bool,
    /// How its connections are balanced; `None` where the Service says nothing about it.
    pub balancing: Option<Arc<Balancing>>,
    pub health_check_node_port: Option<u16>,
    /// What an ExternalName Service points to.
    pub external_name: Option<Arc<str>>,
}

impl Service {
    /// A ClusterIP Service with nothing set: what constructors and tests start from.
    pub fn empty(name: ServiceName) -> Self {
        Self {
            name,
            kind: ServiceKind::ClusterIp,
            cluster_ips: [].into(),
            ports: [].into(),
            external_ips: [].into(),
            load_balancer_ips: [].into(),
            source_ranges: [].into(),
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            affinity_seconds: None,
            scheduler: None,
            preserve_destination: false,
            balancing: None,
            health_check_node_port: None,
            external_name: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceKind {
    ClusterIp,
    NodePort,
    LoadBalancer,
    ExternalName,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Empty when the Service's only port is unnamed.
    pub name: Arc<str>,
    pub protocol: Protocol,
    pub port: u16,
    pub node_port: Option<u16>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficPolicy {
    Cluster,
    Local,
}
