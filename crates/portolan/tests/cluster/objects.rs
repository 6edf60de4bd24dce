//! Objects that the tests write.

use serde_json::{Value, json};

/// A ClusterIP Service with port 80.
pub(crate) fn service(name: &str, cluster_ip: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": cluster_ip, "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]},
    })
}

/// The only slice of a Service, with these endpoints.
pub(crate) fn slice(service: &str, endpoints: &[&str]) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-1"),
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints.iter().map(|address| endpoint(address)).collect::<Vec<_>>(),
    })
}

pub(crate) fn endpoint(address: &str) -> Value {
    let node = if address.starts_with("10.244.1.") { "node-a" } else { "node-b" };
    json!({"addresses": [address], "nodeName": node, "conditions": {"ready": true}})
}

pub(crate) fn slice_path(service: &str) -> String {
    format!("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/{service}-1")
}

pub(crate) fn service_path(name: &str) -> String {
    format!("/api/v1/namespaces/default/services/{name}")
}

pub(crate) const WEB: &str = "10.96.0.80:80";
pub(crate) const WEB_IP: &str = "10.96.0.80";
