//! Nodes, and the ServiceCIDRs that ClusterIPs come from.

use super::field::objects;
use super::metadata::Metadata;

objects! {
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
        taints: Vec<Taint>,
        #[prost(string, repeated, tag = "7")]
        #[serde(rename = "podCIDRs")]
        pod_cidrs: Vec<String>,
    }

    Taint {
        #[prost(string, tag = "1")]
        key: String,
    }

    NodeStatus {
        #[prost(message, repeated, tag = "5")]
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
        cidrs: Vec<String>,
    }
}
