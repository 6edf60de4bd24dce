//! API paths of objects.

use serde_json::Value;

/// The path of the object itself.
pub fn path_of(object: &Value) -> String {
    format!("{}/{}", folder_of(object), text(object, "/metadata/name"))
}

/// The path of its collection, in its namespace if it has one.
pub(super) fn folder_of(object: &Value) -> String {
    let version = text(object, "/apiVersion");
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = plural_of(text(object, "/kind"));
    if is_of_the_cluster(plural) {
        return format!("{root}/{plural}");
    }
    let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
    format!("{root}/namespaces/{namespace}/{plural}")
}

/// # Panics
/// When the test writes an object of a kind that is not in this list.
fn plural_of(kind: &str) -> &'static str {
    match kind {
        "Service" => "services",
        "EndpointSlice" => "endpointslices",
        "Endpoints" => "endpoints",
        "Pod" => "pods",
        "Node" => "nodes",
        "Namespace" => "namespaces",
        "ServiceCIDR" => "servicecidrs",
        "Event" => "events",
        "ConfigMap" => "configmaps",
        "ServiceAccount" => "serviceaccounts",
        "DaemonSet" => "daemonsets",
        "Deployment" => "deployments",
        "PodDisruptionBudget" => "poddisruptionbudgets",
        "ClusterRole" => "clusterroles",
        "ClusterRoleBinding" => "clusterrolebindings",
        other => panic!("`{other}` is not a kind that the lab's API client supports"),
    }
}

fn is_of_the_cluster(plural: &str) -> bool {
    matches!(plural, "nodes" | "namespaces" | "servicecidrs" | "clusterroles" | "clusterrolebindings")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    let found = object.pointer(pointer).and_then(Value::as_str);
    found.unwrap_or_else(|| panic!("the object has no {pointer}: {object}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_found_by_group_namespace_and_name() {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}});
        assert_eq!(path_of(&node), "/api/v1/nodes/node-a");
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "web-1", "namespace": "shop"},
        });
        assert_eq!(path_of(&slice), "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-1");
    }
}
