//! A scenario's objects, written to the API server as a control plane would write them.
//!
//! Standalone, `portolan_source` replaces the control plane: it allocates addresses and node ports and makes slices
//! from Pods and Endpoints. The API server gets the same values, so that both paths must lead to the same rules.

use std::collections::BTreeMap;
use std::mem::take;

use portolan_model::{Service, ServiceName, Slice, SliceEndpoint, Snapshot};
use portolan_source::{Manifests, Options};
use portolan_testkit::Error;
use portolan_testkit::cluster::{Client, SERVICE_RANGES, node, path_of, read_manifests};
use serde_json::{Value, json};

pub(crate) struct Publisher<'a> {
    client: &'a Client,
    manifests: Manifests,
    /// The objects that we have written, by path, in the order of creation.
    published: BTreeMap<String, Value>,
}

impl<'a> Publisher<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        let service_ranges = SERVICE_RANGES.split(',').map(|range| range.parse().unwrap()).collect();
        let options = Options { node_name: "node-a".into(), service_ranges, ..Options::default() };
        let (manifests, _) = Manifests::from_text(options, "scenario", "");
        Self { client, manifests, published: BTreeMap::new() }
    }

    /// Makes the server hold exactly the objects of this text; the error is the server's refusal.
    pub(crate) fn publish(&mut self, text: &str) -> Result<(), Error> {
        self.manifests.set_text(text);
        self.make_namespaces(text)?;
        let wanted = self.wanted(text)?;
        let gone: Vec<String> = self.published.keys().filter(|path| !wanted.contains_key(*path)).cloned().collect();
        gone.iter().try_for_each(|path| self.withdraw(path))?;
        wanted.into_iter().try_for_each(|(path, object)| self.put(path, object))
    }

    /// Deletes everything.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        let published = take(&mut self.published);
        published.keys().try_for_each(|path| self.client.delete(path).map(drop))
    }

    /// Namespaces stay: without controllers, their deletion would never complete.
    fn make_namespaces(&self, text: &str) -> Result<(), Error> {
        for namespace in namespaces(&read_manifests(text)?) {
            match self.client.create(&namespace) {
                Err(Error::Refused { code: 409, .. }) => {}
                created => drop(created?),
            }
        }
        Ok(())
    }

    fn wanted(&self, text: &str) -> Result<BTreeMap<String, Value>, Error> {
        let snapshot = self.manifests.snapshot();
        let documents = read_manifests(text)?;
        let mut objects = vec![plain_node()];
        objects.extend(documents.iter().filter_map(|document| resolved(document, &snapshot)));
        let written: Vec<String> = objects.iter().map(path_of).collect();
        let made = made_slices(&snapshot).into_iter().filter(|slice| !written.contains(&path_of(slice)));
        objects.extend(made);
        Ok(objects.into_iter().map(|object| (path_of(&object), object)).collect())
    }

    fn withdraw(&mut self, path: &str) -> Result<(), Error> {
        self.client.delete(path)?;
        self.published.remove(path);
        Ok(())
    }

    fn put(&mut self, path: String, object: Value) -> Result<(), Error> {
        if self.published.get(&path) == Some(&object) {
            return Ok(());
        }
        self.write(&path, &object)?;
        self.published.insert(path, object.clone());
        if object.get("status").is_some() {
            self.client.set_status(&object)?;
        }
        Ok(())
    }

    /// Some fields, such as a ClusterIP, are immutable: then the object is replaced.
    fn write(&mut self, path: &str, object: &Value) -> Result<(), Error> {
        if self.published.contains_key(path) {
            match self.client.replace(object) {
                Err(Error::Refused { code: 422, .. }) => self.withdraw(path)?,
                replaced => return replaced.map(drop),
            }
        }
        self.client.create(object).map(drop)
    }
}

/// A cluster has a Node object even if the scenario has none.
fn plain_node() -> Value {
    let mut node = node("node-a");
    node.as_object_mut().unwrap().remove("spec");
    node
}

fn namespaces(documents: &[Value]) -> impl Iterator<Item = Value> {
    let named = documents.iter().filter_map(|document| document["metadata"]["namespace"].as_str());
    let others = named.filter(|name| *name != "default");
    others.map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
}

/// The object with the fields that a control plane sets. Pods are represented by the slices that are made from them.
fn resolved(document: &Value, snapshot: &Snapshot) -> Option<Value> {
    let mut object = document.clone();
    match document["kind"].as_str()? {
        "Pod" => return None,
        "Service" => allot(&mut object, snapshot.services.get(&name_of(document))?),
        _ => {}
    }
    Some(object)
}

fn name_of(document: &Value) -> ServiceName {
    let text = |field: &str| document["metadata"][field].as_str();
    ServiceName::new(text("namespace").unwrap_or("default"), text("name").unwrap())
}

fn allot(object: &mut Value, service: &Service) {
    let spec = &mut object["spec"];
    if let Some(first) = service.cluster_ips.first() {
        spec["clusterIP"] = json!(first);
        spec["clusterIPs"] = json!(service.cluster_ips);
    }
    if let Some(port) = service.health_check_node_port {
        spec["healthCheckNodePort"] = json!(port);
    }
    let ports = spec["ports"].as_array_mut().into_iter().flatten();
    for (written, allotted) in ports.zip(&service.ports) {
        if let Some(port) = allotted.node_port {
            written["nodePort"] = json!(port);
        }
    }
}

fn made_slices(snapshot: &Snapshot) -> Vec<Value> {
    let pairs = snapshot.slices.iter().flat_map(|(name, slices)| slices.0.iter().map(move |slice| (name, slice)));
    pairs.map(|(name, slice)| slice_object(name, slice)).collect()
}

fn slice_object(service: &ServiceName, slice: &Slice) -> Value {
    let ports = slice.ports.iter();
    let ports =
        ports.map(|it| json!({"name": it.name, "port": it.port, "protocol": it.protocol.to_string().to_uppercase()}));
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice.name,
            "namespace": service.namespace,
            "labels": {"kubernetes.io/service-name": service.name},
        },
        "addressType": slice.family.to_string(),
        "ports": ports.collect::<Vec<_>>(),
        "endpoints": slice.endpoints.iter().map(endpoint_object).collect::<Vec<_>>(),
    })
}

fn endpoint_object(endpoint: &SliceEndpoint) -> Value {
    let conditions = endpoint.conditions;
    let mut object = json!({
        "addresses": [endpoint.address],
        "conditions": {
            "ready": conditions.ready, "serving": conditions.serving, "terminating": conditions.terminating,
        },
    });
    if let Some(node) = endpoint.node() {
        object["nodeName"] = json!(node);
    }
    if let Some(hints) = endpoint.hints() {
        let named = |names: &[std::sync::Arc<str>]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        object["hints"] = json!({"forZones": named(&hints.zones), "forNodes": named(&hints.nodes)});
    }
    object
}
