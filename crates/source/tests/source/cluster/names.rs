//! What is watched for DNS beside what a proxy needs.

use portolan_model::{ServiceName, Snapshot};
use portolan_source::cluster::{ClusterOptions, Names};
use serde_json::{Value, json};

use super::fake::Fake;
use super::follower::{Follower, addresses, options, service, slices, tuning};
use super::world::{self, World};

fn objects() -> Vec<Value> {
    let mut headless = world::service("quiet", "None");
    headless["spec"]["clusterIPs"] = json!(["None"]);
    let mut foreign = world::service("theirs", "10.96.0.9");
    foreign["metadata"]["labels"] = json!({"service.kubernetes.io/service-proxy-name": "other"});
    let slice = json!({
        "kind": "EndpointSlice",
        "metadata": {
            "name": "quiet-1",
            "namespace": "default",
            "labels": {"kubernetes.io/service-name": "quiet", "service.kubernetes.io/headless": ""},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        "endpoints": [{"addresses": ["10.244.0.1"], "hostname": "quiet-0"}],
    });
    vec![headless, foreign, slice, world::service("web", "10.96.0.1"), namespace("empty"), pod("one", "10.244.0.7")]
}

fn namespace(name: &str) -> Value {
    json!({"kind": "Namespace", "metadata": {"name": name}})
}

fn pod(name: &str, address: &str) -> Value {
    let status = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}, {"ip": "fd00::7"}]});
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "shop"}, "status": status})
}

fn follower(fake: &Fake, names: Names) -> Follower {
    let options = ClusterOptions { master: Some(format!("http://{}", fake.address)), names, ..options() };
    Follower::start(options, tuning())
}

fn pods(snapshot: &Snapshot) -> Vec<String> {
    snapshot.pods.iter().map(|(address, namespace)| format!("{address} {namespace}")).collect()
}

#[tokio::test]
async fn names_see_headless_services_and_those_of_others() {
    for json_only in [false, true] {
        let mut world = World { json_only, ..World::default() };
        objects().into_iter().for_each(|object| world.put(object));
        let fake = Fake::start(world).await;
        let snapshot = follower(&fake, Names::OfPods).ready().await;
        assert!(service(&snapshot, "quiet").unwrap().cluster_ips.is_empty());
        assert_eq!(addresses(&snapshot, "quiet"), ["10.244.0.1"]);
        assert!(service(&snapshot, "theirs").is_none());
        assert!(snapshot.foreign.contains_key(&ServiceName::new("default", "theirs")));
        assert!(snapshot.namespaces.contains("empty"));
        assert_eq!(pods(&snapshot), ["10.244.0.7 shop", "fd00::7 shop"]);
    }
}

#[tokio::test]
async fn only_wanted_resources_are_requested() {
    let mut world = World::default();
    objects().into_iter().for_each(|object| world.put(object));
    let fake = Fake::start(world).await;
    let snapshot = follower(&fake, Names::OfServices).ready().await;
    assert!(service(&snapshot, "quiet").is_some());
    assert!(snapshot.namespaces.is_empty() && snapshot.pods.is_empty());
    let requested = |path: &str| fake.world().requests.iter().any(|request| request.path() == path);
    assert!(!requested("/api/v1/pods") && !requested("/api/v1/namespaces"));
}

#[tokio::test]
async fn pods_namespaces_and_owners_change() {
    let mut world = World::default();
    objects().into_iter().for_each(|object| world.put(object));
    let fake = Fake::start(world).await;
    let follower = follower(&fake, Names::OfPods);
    follower.ready().await;
    fake.change(|world| world.put(pod("one", "10.244.0.8")));
    follower.until("the pod has moved", |it| pods(it) == ["10.244.0.8 shop", "fd00::7 shop"]).await;
    fake.change(|world| world.put(namespace("another")));
    follower.until("the namespace is there", |it| it.namespaces.contains("another")).await;
    fake.change(|world| world.put(world::service("theirs", "10.96.0.9")));
    let is_ours = |it: &Snapshot| service(it, "theirs").is_some() && it.foreign.is_empty();
    follower.until("the Service is no longer foreign", is_ours).await;
}

/// A slice with the label of headless Services belongs to DNS, whatever its Service is.
#[tokio::test]
async fn slices_of_headless_services_are_marked_for_names_only() {
    let mut headless = world::slice("web-b", "web", &["10.1.0.9"]);
    headless["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
    let objects = [world::service("web", "10.96.0.1"), world::slice("web-a", "web", &["10.1.0.1"]), headless];
    for names in [Names::None, Names::OfServices] {
        let mut world = World::default();
        objects.iter().for_each(|object| world.put(object.clone()));
        // A real server filters by label where names are not wanted; this one does not.
        let snapshot = follower(&Fake::start(world).await, names).ready().await;
        let marks: Vec<bool> = slices(&snapshot, "web").iter().map(|slice| slice.is_for_names_only).collect();
        assert_eq!(marks, [false, true]);
    }
}
