//! EndpointSlices, and the older Endpoints.

use super::field::objects;
use super::metadata::Metadata;

objects! {
    EndpointSlice {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, repeated, tag = "2")]
        endpoints: Vec<Endpoint>,
        #[prost(message, repeated, tag = "3")]
        ports: Vec<EndpointPort>,
        #[prost(string, tag = "4")]
        address_type: String,
    }

    Endpoint {
        #[prost(string, repeated, tag = "1")]
        addresses: Vec<String>,
        #[prost(message, optional, tag = "2")]
        conditions: Option<Conditions>,
        #[prost(string, tag = "3")]
        hostname: String,
        #[prost(message, optional, tag = "4")]
        target_ref: Option<ObjectReference>,
        #[prost(string, tag = "6")]
        node_name: String,
        #[prost(string, tag = "7")]
        zone: String,
        #[prost(message, optional, tag = "8")]
        hints: Option<Hints>,
    }

    ObjectReference {
        #[prost(string, tag = "1")]
        kind: String,
        #[prost(string, tag = "2")]
        namespace: String,
        #[prost(string, tag = "3")]
        name: String,
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
        for_zones: Vec<Named>,
        #[prost(message, repeated, tag = "2")]
        for_nodes: Vec<Named>,
    }

    Named {
        #[prost(string, tag = "1")]
        name: String,
    }

    EndpointPort {
        #[prost(string, optional, tag = "1")]
        name: Option<String>,
        #[prost(string, tag = "2")]
        protocol: String,
        #[prost(int32, optional, tag = "3")]
        port: Option<i32>,
    }

    Endpoints {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
        #[prost(message, repeated, tag = "2")]
        subsets: Vec<Subset>,
    }

    Subset {
        #[prost(message, repeated, tag = "1")]
        addresses: Vec<SubsetAddress>,
        #[prost(message, repeated, tag = "2")]
        not_ready_addresses: Vec<SubsetAddress>,
        #[prost(message, repeated, tag = "3")]
        ports: Vec<SubsetPort>,
    }

    SubsetAddress {
        #[prost(string, tag = "1")]
        ip: String,
        #[prost(message, optional, tag = "2")]
        target_ref: Option<ObjectReference>,
        #[prost(string, tag = "3")]
        hostname: String,
        #[prost(string, tag = "4")]
        node_name: String,
    }

    /// The same as a slice's port, with other tags.
    SubsetPort {
        #[prost(string, optional, tag = "1")]
        name: Option<String>,
        #[prost(int32, optional, tag = "2")]
        port: Option<i32>,
        #[prost(string, tag = "3")]
        protocol: String,
    }
}

impl From<SubsetPort> for EndpointPort {
    fn from(port: SubsetPort) -> Self {
        Self { name: port.name, protocol: port.protocol, port: port.port }
    }
}
