//! What we read of Kubernetes' objects, in Kubernetes' spelling. Unknown fields are passed over.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// Labels, annotations and selectors. A null value counts as an empty one.
pub(crate) type Labels = BTreeMap<String, Option<String>>;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Header {
    pub(crate) api_version: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) metadata: Option<Metadata>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) labels: Option<Labels>,
    pub(crate) annotations: Option<Labels>,
    pub(crate) deletion_timestamp: Option<String>,
}

impl Metadata {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        let value = self.labels.as_ref()?.get(key)?;
        Some(value.as_deref().unwrap_or(""))
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key)?.as_deref()
    }
}

/// A number or a text, kept as it was written, so that the complaint can name the field and show the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Number(i64),
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => write!(formatter, "{text:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl Visitor<'_> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a text")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(i64::try_from(number).map_or_else(|_| Scalar::Text(number.to_string()), Scalar::Number))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Text(number.to_string()))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Scalar, E> {
        Ok(Scalar::Text(value.to_string()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }
}

/// A struct whose every field may be absent or null.
macro_rules! documents {
    ($($(#[$note:meta])* $name:ident { $($(#[$field_note:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$note])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(crate) struct $name { $($(#[$field_note])* pub(crate) $field: Option<$type>,)* }
    )*};
}

documents! {
    ServiceDocument { metadata: Metadata, spec: ServiceSpec, status: ServiceStatus, }
    ServiceSpec {
        r#type: String,
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        #[serde(rename = "clusterIPs")]
        cluster_ips: Vec<String>,
        ports: Vec<ServicePortDocument>,
        selector: Labels,
        #[serde(rename = "externalIPs")]
        external_ips: Vec<String>,
        load_balancer_source_ranges: Vec<String>,
        session_affinity: String,
        session_affinity_config: AffinityConfig,
        external_traffic_policy: String,
        internal_traffic_policy: String,
        health_check_node_port: Scalar,
        publish_not_ready_addresses: bool,
        ip_families: Vec<String>,
        ip_family_policy: String,
        allocate_load_balancer_node_ports: bool,
        external_name: String,
        traffic_distribution: String,
    }
    ServicePortDocument {
        name: String,
        protocol: String,
        port: Scalar,
        target_port: Scalar,
        node_port: Scalar,
    }
    AffinityConfig { #[serde(rename = "clientIP")] client_ip: ClientIpConfig, }
    ClientIpConfig { timeout_seconds: Scalar, }
    ServiceStatus { load_balancer: LoadBalancerStatus, }
    LoadBalancerStatus { ingress: Vec<Ingress>, }
    Ingress { ip: String, ip_mode: String, }

    SliceDocument {
        metadata: Metadata,
        address_type: String,
        ports: Vec<PortDocument>,
        endpoints: Vec<EndpointDocument>,
    }
    /// A port of an EndpointSlice or of a subset of Endpoints.
    PortDocument { name: String, protocol: String, port: Scalar, }
    EndpointDocument {
        addresses: Vec<String>,
        conditions: ConditionsDocument,
        hostname: String,
        node_name: String,
        hints: HintsDocument,
    }
    ConditionsDocument { ready: bool, serving: bool, terminating: bool, }
    HintsDocument { for_zones: Vec<Named>, for_nodes: Vec<Named>, }
    Named { name: String, }

    EndpointsDocument { metadata: Metadata, subsets: Vec<Subset>, }
    Subset {
        addresses: Vec<SubsetAddress>,
        not_ready_addresses: Vec<SubsetAddress>,
        ports: Vec<PortDocument>,
    }
    SubsetAddress { ip: String, hostname: String, node_name: String, }

    PodDocument { metadata: Metadata, spec: PodSpec, status: PodStatus, }
    PodSpec {
        node_name: String,
        hostname: String,
        subdomain: String,
        enable_service_links: bool,
        containers: Vec<Container>,
        init_containers: Vec<Container>,
    }
    Container { restart_policy: String, ports: Vec<ContainerPort>, }
    ContainerPort { name: String, container_port: Scalar, protocol: String, }
    PodStatus {
        phase: String,
        #[serde(rename = "podIP")]
        pod_ip: String,
        #[serde(rename = "podIPs")]
        pod_ips: Vec<PodIp>,
        conditions: Vec<PodCondition>,
    }
    PodIp { ip: String, }
    PodCondition { r#type: String, status: String, }

    NamespaceDocument { metadata: Metadata, }
    NodeDocument { metadata: Metadata, spec: NodeSpec, status: NodeStatus, }
    NodeSpec {
        #[serde(rename = "podCIDR")]
        pod_cidr: String,
        #[serde(rename = "podCIDRs")]
        pod_cidrs: Vec<String>,
    }
    NodeStatus { addresses: Vec<NodeAddress>, }
    NodeAddress { r#type: String, address: String, }
}
