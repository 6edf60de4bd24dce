//! One object gives one model, whether it comes from a manifest or from an API server. The objects are those of the
//! scenarios.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use portolan_model::{Service, ServiceName, Slice, Snapshot};
use portolan_source::cluster::{ClusterOptions, Names};
use portolan_source::{Manifests, Options};
use serde_json::{Value, json};

use super::fake::Fake;
use super::follower::{Follower, options, tuning};
use super::world::World;

const NODE: &str = "node-a";

/// Name and text of each list of objects.
fn lists_of_objects() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.flat_map(|file| sections(&file.display().to_string(), &fs::read_to_string(&file).unwrap())).collect()
}

fn sections(file: &str, text: &str) -> Vec<(String, String)> {
    let parts = text.split("\n-- ").filter_map(|part| part.strip_prefix("objects.yaml --\n"));
    parts.map(|part| (file.to_owned(), part.to_owned())).collect()
}

fn objects(text: &str) -> Vec<Value> {
    portolan_yaml::read_all::<Value>(text).unwrap().into_iter().filter(Value::is_object).collect()
}

fn from_manifests(name: &str, text: &str) -> Snapshot {
    let ranges = ["10.96.0.0/16", "fd00:10:96::/112"].map(|range| range.parse().unwrap());
    let options = Options { node_name: NODE.to_owned(), service_ranges: ranges.to_vec(), ..Options::default() };
    Manifests::from_text(options, name, text).0.snapshot()
}

/// What the API server fills in.
fn completed(mut object: Value, snapshot: &Snapshot) -> Value {
    if object["metadata"]["namespace"].is_null() && object["kind"] != "Node" {
        object["metadata"]["namespace"] = json!("default");
    }
    if let Some(service) = snapshot.services.get(&name_of(&object)).filter(|_| object["kind"] == "Service") {
        complete_service(&mut object["spec"], service);
    }
    if object["kind"] == "EndpointSlice" {
        let ports = object["ports"].as_array_mut().into_iter().flatten();
        ports.filter(|port| port["name"].is_null()).for_each(|port| port["name"] = json!(""));
    }
    object
}

fn complete_service(spec: &mut Value, service: &Service) {
    if spec["clusterIP"] == "None" {
        spec["clusterIPs"] = json!(["None"]);
    } else if !service.cluster_ips.is_empty() {
        spec["clusterIP"] = json!(service.cluster_ips[0].to_string());
        spec["clusterIPs"] = service.cluster_ips.iter().map(ToString::to_string).collect();
    }
    for (port, known) in spec["ports"].as_array_mut().into_iter().flatten().zip(&service.ports) {
        port["nodePort"] = known.node_port.map_or(Value::Null, Into::into);
    }
    let defaults = [("type", "ClusterIP"), ("sessionAffinity", "None"), ("internalTrafficPolicy", "Cluster")];
    for (field, value) in defaults.into_iter().filter(|(field, _)| spec[*field].is_null()).collect::<Vec<_>>() {
        spec[field] = json!(value);
    }
    spec["healthCheckNodePort"] = service.health_check_node_port.map_or(Value::Null, Into::into);
}

fn name_of(object: &Value) -> ServiceName {
    let text = |field: &str| object["metadata"][field].as_str();
    ServiceName::new(text("namespace").unwrap_or("default"), text("name").unwrap_or_default())
}

async fn from_server(objects: &[Value], json_only: bool) -> Snapshot {
    let mut world = World { json_only, ..World::default() };
    objects.iter().for_each(|object| world.put(object.clone()));
    let fake = Fake::start(world).await;
    let master = Some(format!("http://{}", fake.address));
    // Manifests always give headless Services.
    let names = Names::OfServices;
    let options = ClusterOptions { master, names, node_name: NODE.to_owned(), ..options() };
    Follower::start(options, tuning()).ready().await
}

/// The objects that a server has: those of the kinds that are watched, each name once.
fn served(objects: Vec<Value>, snapshot: &Snapshot) -> Vec<Value> {
    let mut by_name = BTreeMap::new();
    for object in objects {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if ["Service", "EndpointSlice", "Node"].contains(&kind.as_str()) {
            let key = (kind, object["metadata"]["name"].to_string());
            by_name.entry(key).or_insert_with(|| completed(object, snapshot));
        }
    }
    by_name.into_values().collect()
}

fn slice(snapshot: &Snapshot, object: &Value) -> Option<Arc<Slice>> {
    let service = object["metadata"]["labels"]["kubernetes.io/service-name"].as_str()?;
    let slices = snapshot.slices.get(&ServiceName { name: service.into(), ..name_of(object) })?;
    slices.0.iter().find(|slice| *slice.name == *name_of(object).name).cloned()
}

/// How many models were compared.
fn compare(name: &str, objects: &[Value], files: &Snapshot, server: &Snapshot) -> usize {
    let mut compared = 0;
    for object in objects {
        let key = name_of(object);
        match object["kind"].as_str() {
            Some("Service") if files.services.contains_key(&key) => {
                assert_eq!(server.services.get(&key), files.services.get(&key), "{name}: {object}");
            }
            Some("EndpointSlice") if slice(files, object).is_some() => {
                assert_eq!(slice(server, object), slice(files, object), "{name}: {object}");
            }
            Some("Node") if *key.name == *NODE => assert_eq!(server.node, files.node, "{name}: {object}"),
            _ => continue,
        }
        compared += 1;
    }
    compared
}

#[tokio::test]
async fn manifests_and_api_server_give_the_same_models() {
    let mut compared = 0;
    for (name, text) in lists_of_objects() {
        let files = from_manifests(&name, &text);
        let objects = served(objects(&text), &files);
        for json_only in [false, true] {
            compared += compare(&name, &objects, &files, &from_server(&objects, json_only).await);
        }
    }
    assert!(compared > 500, "{compared} models were compared");
}
