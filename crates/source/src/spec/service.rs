//! Services.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::field::{Labels, nullable, objects};
use super::metadata::Metadata;

objects! {
    Service {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, optional, tag = "2")]
        spec: Option<ServiceSpec>,
        #[prost(message, required, tag = "3")]
        status: ServiceStatus,
    }

    ServiceSpec {
        #[prost(message, repeated, tag = "1")]
        ports: Vec<ServicePort>,
        #[prost(message, repeated, tag = "2")]
        selector: Labels,
        #[prost(string, tag = "3")]
        #[serde(rename = "clusterIP")]
        cluster_ip: String,
        #[prost(string, tag = "4")]
        r#type: String,
        #[prost(string, repeated, tag = "5")]
        #[serde(rename = "externalIPs")]
        external_ips: Vec<String>,
        #[prost(string, tag = "7")]
        session_affinity: String,
        #[prost(string, repeated, tag = "9")]
        load_balancer_source_ranges: Vec<String>,
        #[prost(string, tag = "10")]
        external_name: String,
        #[prost(string, tag = "11")]
        external_traffic_policy: String,
        #[prost(int32, optional, tag = "12")]
        health_check_node_port: Option<i32>,
        #[prost(bool, tag = "13")]
        publish_not_ready_addresses: bool,
        #[prost(message, optional, tag = "14")]
        session_affinity_config: Option<SessionAffinityConfig>,
        #[prost(string, tag = "17")]
        ip_family_policy: String,
        #[prost(string, repeated, tag = "18")]
        #[serde(rename = "clusterIPs")]
        cluster_ips: Vec<String>,
        #[prost(string, repeated, tag = "19")]
        ip_families: Vec<String>,
        #[prost(bool, optional, tag = "20")]
        allocate_load_balancer_node_ports: Option<bool>,
        #[prost(string, tag = "22")]
        internal_traffic_policy: String,
        #[prost(string, tag = "23")]
        traffic_distribution: String,
    }

    ServicePort {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "2")]
        protocol: String,
        #[prost(int32, optional, tag = "3")]
        port: Option<i32>,
        #[prost(message, optional, tag = "4")]
        target_port: Option<IntOrString>,
        #[prost(int32, optional, tag = "5")]
        node_port: Option<i32>,
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
        ingress: Vec<Ingress>,
    }

    Ingress {
        #[prost(string, tag = "1")]
        ip: String,
        #[prost(string, tag = "3")]
        ip_mode: String,
    }
}

impl ServiceSpec {
    /// `clusterIP: None`, or the first of `clusterIPs` where that field alone is given.
    pub(crate) fn is_headless(&self) -> bool {
        let first = self.cluster_ips.first().map_or("", String::as_str);
        let address = if self.cluster_ip.is_empty() { first } else { &self.cluster_ip };
        address == "None"
    }
}

/// A port's number or its name: in protobuf a message, in JSON and YAML the bare value.
#[derive(prost::Message)]
pub(crate) struct IntOrString {
    /// Which of the two fields counts: 0 for the number, 1 for the text.
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int32, tag = "2")]
    number: i32,
    #[prost(string, tag = "3")]
    text: String,
}

nullable!(Option<IntOrString>);

impl IntOrString {
    pub(crate) fn value(&self) -> Result<i32, &str> {
        if self.kind == 0 { Ok(self.number) } else { Err(&self.text) }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(IntOrStringVisitor)
    }
}

struct IntOrStringVisitor;

impl Visitor<'_> for IntOrStringVisitor {
    type Value = IntOrString;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a port number or the name of a port")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<IntOrString, E> {
        let number = i32::try_from(number).map_err(|_| E::custom(format_args!("{number} is not a port")))?;
        Ok(IntOrString { number, ..IntOrString::default() })
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<IntOrString, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<IntOrString, E> {
        Ok(IntOrString { kind: 1, text: text.to_owned(), ..IntOrString::default() })
    }
}
