//! Pods.

use super::field::objects;
use super::metadata::Metadata;

objects! {
    Pod {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, required, tag = "2")]
        spec: PodSpec,
        #[prost(message, required, tag = "3")]
        status: PodStatus,
    }

    PodSpec {
        #[prost(message, repeated, tag = "2")]
        containers: Vec<Container>,
        #[prost(string, tag = "10")]
        node_name: String,
        #[prost(string, tag = "16")]
        hostname: String,
        #[prost(string, tag = "17")]
        subdomain: String,
        #[prost(message, repeated, tag = "20")]
        init_containers: Vec<Container>,
        #[prost(bool, optional, tag = "30")]
        enable_service_links: Option<bool>,
    }

    Container {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "6")]
        ports: Vec<ContainerPort>,
        #[prost(string, tag = "24")]
        restart_policy: String,
    }

    ContainerPort {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int32, optional, tag = "3")]
        container_port: Option<i32>,
        #[prost(string, tag = "4")]
        protocol: String,
    }

    PodStatus {
        #[prost(string, tag = "1")]
        phase: String,
        #[prost(message, repeated, tag = "2")]
        conditions: Vec<PodCondition>,
        #[prost(string, tag = "6")]
        #[serde(rename = "podIP")]
        pod_ip: String,
        #[prost(message, repeated, tag = "12")]
        #[serde(rename = "podIPs")]
        pod_ips: Vec<PodIp>,
    }

    PodCondition {
        #[prost(string, tag = "1")]
        r#type: String,
        #[prost(string, tag = "2")]
        status: String,
    }

    PodIp {
        #[prost(string, tag = "1")]
        ip: String,
    }
}
