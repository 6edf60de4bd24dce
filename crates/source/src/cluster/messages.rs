//! The parts of Kubernetes' objects that matter here, each in one type for both encodings on the wire.
//!
//! The numbers are those of the API's published protocol buffers, which never change; the names are those of its JSON.
//! Whatever is not listed is skipped while reading and costs next to nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

macro_rules! message {
    ($($(#[$about:meta])* $name:ident { $($(#[$rule:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, prost::Message, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(super) struct $name { $($(#[$rule])* pub(super) $field: $type),* }
    )*};
}

message! {
    Metadata {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "3")]
        namespace: String,
        #[prost(string, tag = "6")]
        resource_version: String,
        #[prost(message, optional, tag = "9")]
        #[serde(deserialize_with = "whether_given")]
        deletion_timestamp: Option<Time>,
        #[prost(btree_map = "string, string", tag = "11")]
        #[serde(deserialize_with = "null_is_nothing")]
        labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "12")]
        #[serde(deserialize_with = "null_is_nothing")]
        annotations: BTreeMap<String, String>,
    }

    /// Only that there is one counts.
    Time {}

    /// What every object has; enough to tell whose a broken one is.
    Identity {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
    }

    Service {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, required, tag = "2")]
        spec: ServiceSpec,
        #[prost(message, required, tag = "3")]
        status: ServiceStatus,
    }

    ServiceSpec {
        #[prost(message, repeated, tag = "1")]
        #[serde(deserialize_with = "null_is_nothing")]
        ports: Vec<ServicePort>,
        #[prost(string, tag = "3")]
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        #[prost(string, tag = "4")]
        r#type: String,
        #[prost(string, repeated, tag = "5")]
        #[serde(rename = "externalIPs", deserialize_with = "null_is_nothing")]
        external_ips: Vec<String>,
        #[prost(string, tag = "7")]
        session_affinity: String,
        #[prost(string, repeated, tag = "9")]
        #[serde(deserialize_with = "null_is_nothing")]
        load_balancer_source_ranges: Vec<String>,
        #[prost(string, tag = "10")]
        external_name: String,
        #[prost(string, tag = "11")]
        external_traffic_policy: String,
        #[prost(int32, tag = "12")]
        health_check_node_port: i32,
        #[prost(message, optional, tag = "14")]
        session_affinity_config: Option<SessionAffinityConfig>,
        #[prost(string, repeated, tag = "18")]
        #[serde(rename = "clusterIPs", deserialize_with = "null_is_nothing")]
        cluster_ips: Vec<String>,
        #[prost(string, optional, tag = "22")]
        internal_traffic_policy: Option<String>,
    }

    ServicePort {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "2")]
        protocol: String,
        #[prost(int32, tag = "3")]
        port: i32,
        #[prost(int32, tag = "5")]
        node_port: i32,
    }

    SessionAffinityConfig {
        #[prost(message, optional, tag = "1")]
        #[serde(rename = "clientIP")]
        client_ip: Option<ClientIpConfig>,
    }

    ClientIpConfig {
        #[prost(int32, optional, tag = "1")]
        timeout_seconds: Option<i32>,
    }

    ServiceStatus {
        #[prost(message, required, tag = "1")]
        load_balancer: LoadBalancerStatus,
    }

    LoadBalancerStatus {
        #[prost(message, repeated, tag = "1")]
        #[serde(deserialize_with = "null_is_nothing")]
        ingress: Vec<Ingress>,
    }

    Ingress {
        #[prost(string, tag = "1")]
        ip: String,
        #[prost(string, optional, tag = "3")]
        ip_mode: Option<String>,
    }

    EndpointSlice {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, repeated, tag = "2")]
        #[serde(deserialize_with = "null_is_nothing")]
        endpoints: Vec<Endpoint>,
        #[prost(message, repeated, tag = "3")]
        #[serde(deserialize_with = "null_is_nothing")]
        ports: Vec<EndpointPort>,
        #[prost(string, tag = "4")]
        address_type: String,
    }

    Endpoint {
        #[prost(string, repeated, tag = "1")]
        #[serde(deserialize_with = "null_is_nothing")]
        addresses: Vec<String>,
        #[prost(message, optional, tag = "2")]
        conditions: Option<Conditions>,
        #[prost(string, optional, tag = "3")]
        hostname: Option<String>,
        #[prost(string, optional, tag = "6")]
        node_name: Option<String>,
        #[prost(message, optional, tag = "8")]
        hints: Option<Hints>,
    }

    Conditions {
        #[prost(bool, optional, tag = "1")]
        ready: Option<bool>,
        #[prost(bool, optional, tag = "2")]
        serving: Option<bool>,
        #[prost(bool, optional, tag = "3")]
        terminating: Option<bool>,
    }

    Hints {
        #[prost(message, repeated, tag = "1")]
        #[serde(deserialize_with = "null_is_nothing")]
        for_zones: Vec<Named>,
        #[prost(message, repeated, tag = "2")]
        #[serde(deserialize_with = "null_is_nothing")]
        for_nodes: Vec<Named>,
    }

    Named {
        #[prost(string, tag = "1")]
        name: String,
    }

    EndpointPort {
        #[prost(string, optional, tag = "1")]
        name: Option<String>,
        #[prost(string, optional, tag = "2")]
        protocol: Option<String>,
        #[prost(int32, optional, tag = "3")]
        port: Option<i32>,
    }

    Node {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, required, tag = "2")]
        spec: NodeSpec,
        #[prost(message, required, tag = "3")]
        status: NodeStatus,
    }

    NodeSpec {
        #[prost(string, tag = "1")]
        #[serde(rename = "podCIDR")]
        pod_cidr: String,
        #[prost(message, repeated, tag = "5")]
        #[serde(deserialize_with = "null_is_nothing")]
        taints: Vec<Taint>,
        #[prost(string, repeated, tag = "7")]
        #[serde(rename = "podCIDRs", deserialize_with = "null_is_nothing")]
        pod_cidrs: Vec<String>,
    }

    Taint {
        #[prost(string, tag = "1")]
        key: String,
    }

    NodeStatus {
        #[prost(message, repeated, tag = "5")]
        #[serde(deserialize_with = "null_is_nothing")]
        addresses: Vec<NodeAddress>,
    }

    NodeAddress {
        #[prost(string, tag = "1")]
        r#type: String,
        #[prost(string, tag = "2")]
        address: String,
    }

    ServiceCidr {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, required, tag = "2")]
        spec: ServiceCidrSpec,
    }

    ServiceCidrSpec {
        #[prost(string, repeated, tag = "1")]
        #[serde(deserialize_with = "null_is_nothing")]
        cidrs: Vec<String>,
    }

    Pod {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, required, tag = "3")]
        status: PodStatus,
    }

    PodStatus {
        #[prost(string, tag = "1")]
        phase: String,
        #[prost(string, tag = "6")]
        #[serde(rename = "podIP")]
        pod_ip: String,
        #[prost(message, repeated, tag = "12")]
        #[serde(rename = "podIPs", deserialize_with = "null_is_nothing")]
        pod_ips: Vec<PodIp>,
    }

    PodIp {
        #[prost(string, tag = "1")]
        ip: String,
    }

    /// Why the server did not do what it was asked.
    Status {
        #[prost(string, tag = "3")]
        message: String,
        #[prost(string, tag = "4")]
        reason: String,
        #[prost(int32, tag = "6")]
        code: i32,
    }

    ListMetadata {
        #[prost(string, tag = "2")]
        resource_version: String,
        #[prost(string, tag = "3")]
        r#continue: String,
    }
}

/// Go's encoder writes `null` for an empty list that nobody made.
fn null_is_nothing<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn whether_given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Time>, D::Error> {
    let given = Option::<serde::de::IgnoredAny>::deserialize(from)?;
    Ok(given.map(|_| Time {}))
}
