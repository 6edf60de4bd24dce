//! What becomes of single objects, in both encodings.

use portolan_model::{Conditions, Protocol, ServiceKind, Snapshot, TrafficPolicy};
use portolan_source::cluster::Tuning;
use serde_json::{Value, json};

use super::fake::Fake;
use super::follower::{Follower, addresses, service, slices, tuning};
use super::protobuf::INVALID;
use super::world::{self, Cut, World};

/// The snapshot of some objects, the same from both encodings.
async fn snapshot_of(objects: &[Value]) -> Snapshot {
    let [left, right] = [snapshot_in(objects, false).await, snapshot_in(objects, true).await];
    assert_eq!(left.services, right.services);
    assert_eq!(left.slices, right.slices);
    left
}

async fn snapshot_in(objects: &[Value], json_only: bool) -> Snapshot {
    let mut world = World { json_only, ..World::default() };
    objects.iter().for_each(|object| world.put(object.clone()));
    let fake = Fake::start(world).await;
    Follower::of(&fake).ready().await
}

fn with(mut object: Value, spec: Value) -> Value {
    for (key, value) in spec.as_object().unwrap() {
        object["spec"][key] = value.clone();
    }
    object
}

#[tokio::test]
async fn a_service_with_everything() {
    let mut object = with(
        world::service("web", "10.96.0.1"),
        json!({
            "type": "LoadBalancer", "clusterIPs": ["10.96.0.1", "fd00:96::1"], "externalIPs": ["192.0.2.010", "nonsense"],
            "sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 600}},
            "loadBalancerSourceRanges": [" 198.51.100.0/24 "], "externalTrafficPolicy": "Local",
            "internalTrafficPolicy": "Local", "healthCheckNodePort": 30999,
            "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080},
                {"name": "dns", "protocol": "UDP", "port": 53},
            ],
        }),
    );
    object["status"]["loadBalancer"]["ingress"] =
        json!([{"ip": "203.0.113.1"}, {"ip": "203.0.113.2", "ipMode": "Proxy"}, {"hostname": "elsewhere"}]);
    let service = service(&snapshot_of(&[object]).await, "web").unwrap();
    assert_eq!(service.kind, ServiceKind::LoadBalancer);
    assert_eq!(service.cluster_ips.len(), 2);
    assert_eq!(service.external_ips.iter().map(|it| it.to_string()).collect::<Vec<_>>(), ["192.0.2.10"]);
    assert_eq!(service.load_balancer_ips.len(), 1);
    assert_eq!(service.source_ranges.len(), 1);
    assert_eq!((service.internal_policy, service.external_policy), (TrafficPolicy::Local, TrafficPolicy::Local));
    assert_eq!((service.affinity_seconds, service.health_check_node_port), (Some(600), Some(30999)));
    assert_eq!((service.ports[0].node_port, service.ports[1].protocol), (Some(30080), Protocol::Udp));
}

#[tokio::test]
async fn services_without_an_address_get_no_rules() {
    let mut old = world::service("old", "10.96.0.9");
    old["spec"]["clusterIPs"] = Value::Null;
    let objects = [
        with(world::service("headless", "None"), json!({})),
        with(world::service("none-yet", ""), json!({"clusterIPs": []})),
        with(
            world::service("name", ""),
            json!({"type": "ExternalName", "externalName": "example.org", "clusterIPs": []}),
        ),
        old,
    ];
    let snapshot = snapshot_of(&objects).await;
    assert!(service(&snapshot, "headless").is_none() && service(&snapshot, "none-yet").is_none());
    let name = service(&snapshot, "name").unwrap();
    assert_eq!((name.kind, name.cluster_ips.len()), (ServiceKind::ExternalName, 0));
    assert_eq!(service(&snapshot, "old").unwrap().cluster_ips.len(), 1);
}

#[tokio::test]
async fn a_slice_with_everything() {
    let mut object = world::slice("web-a", "web", &["10.1.0.1"]);
    object["ports"] = json!([
        {"name": "", "port": 1}, {"name": "none"}, {"port": 3}, {"name": "dns", "port": 53, "protocol": "UDP"},
    ]);
    object["endpoints"] = json!([
        {"addresses": ["10.1.0.1", "10.1.0.99"], "hints": {"forZones": [{"name": "z1"}], "forNodes": [{"name": "n1"}]}},
        {"addresses": ["10.1.0.2"], "conditions": {"ready": false, "terminating": true}, "nodeName": "n1"},
        {"addresses": []},
    ]);
    let slice = slices(&snapshot_of(&[object]).await, "web")[0].clone();
    let ports: Vec<_> = slice.ports.iter().map(|it| (&*it.name, it.protocol, it.port)).collect();
    assert_eq!(ports, [("", Protocol::Tcp, 1), ("dns", Protocol::Udp, 53)]);
    assert_eq!(slice.endpoints.len(), 2);
    assert_eq!(slice.endpoints[0].conditions, Conditions::READY);
    assert_eq!(slice.endpoints[0].hints().map(|it| (it.zones.len(), it.nodes.len())), Some((1, 1)));
    assert_eq!(slice.endpoints[1].conditions, Conditions::DRAINING);
    assert_eq!(slice.endpoints[1].node().map(|it| &**it), Some("n1"));
}

#[tokio::test]
async fn slices_without_service_or_addresses_are_ignored() {
    let mut stray = world::slice("stray", "web", &["10.1.0.1"]);
    stray["metadata"]["labels"] = json!({});
    let mut names = world::slice("names", "web", &[]);
    names["addressType"] = json!("FQDN");
    names["endpoints"] = json!([{"addresses": ["example.org"]}]);
    let mut empty = world::slice("empty", "other", &[]);
    (empty["ports"], empty["endpoints"]) = (Value::Null, Value::Null);
    let snapshot = snapshot_of(&[stray, names, empty]).await;
    assert!(slices(&snapshot, "web").is_empty());
    assert_eq!(slices(&snapshot, "other").len(), 1);
}

/// Objects that fail at every stage: their bytes, their values, their names.
fn spoiled(object: Value) -> Vec<Value> {
    let mut broken = object.clone();
    broken["broken"] = json!("type");
    let mut wrong = object;
    match wrong["kind"].as_str() {
        Some("Service") => wrong["spec"]["ports"][0]["port"] = json!(70000),
        _ => wrong["endpoints"][0]["addresses"][0] = json!("nonsense"),
    }
    vec![broken, wrong]
}

#[tokio::test]
async fn a_malformed_object_affects_only_itself() {
    for json_only in [false, true] {
        for index in 0..2 {
            let mut world = World { json_only, ..World::default() };
            world.put(world::service("web", "10.96.0.1"));
            world.put(world::slice("web-a", "web", &["10.1.0.1"]));
            let fake = Fake::start(world).await;
            let follower = Follower::of(&fake);
            follower.ready().await;
            fake.change(|world| {
                world.put(spoiled(world::service("web", "10.96.0.7")).swap_remove(index));
                world.put(spoiled(world::slice("web-a", "web", &["10.1.0.7"])).swap_remove(index));
                world.put(world::service("new", "10.96.0.2"));
                world.put(world::slice("new-a", "new", &["10.1.0.2"]));
            });
            let is_new = |it: &Snapshot| service(it, "new").is_some() && addresses(it, "new") == ["10.1.0.2"];
            let snapshot = follower.until("the good objects", is_new).await;
            let check = |snapshot: &Snapshot| {
                let address = service(snapshot, "web").unwrap().cluster_ips[0].to_string();
                assert_eq!((address.as_str(), addresses(snapshot, "web")), ("10.96.0.1", vec!["10.1.0.1".to_owned()]));
            };
            check(&snapshot);
            // The last good version survives a new list, too.
            fake.change(|world| {
                world.put(world::service("newer", "10.96.0.3"));
                world.put(world::slice("newer-a", "newer", &["10.1.0.3"]));
                world.cut(Cut::Abrupt);
                world.compact();
            });
            let is_newer = |it: &Snapshot| service(it, "newer").is_some() && addresses(it, "newer") == ["10.1.0.3"];
            check(&follower.until("the list", is_newer).await);
        }
    }
}

#[tokio::test]
async fn a_slice_may_change_its_service_or_lose_it() {
    let mut world = World::default();
    world.put(world::slice("a", "web", &["10.1.0.1"]));
    world.put(world::slice("b", "web", &["10.1.0.2"]));
    let fake = Fake::start(world).await;
    let follower = Follower::of(&fake);
    follower.ready().await;
    fake.change(|world| world.put(world::slice("a", "api", &["10.1.0.1"])));
    let snapshot = follower.until("the move", |it| addresses(it, "api") == ["10.1.0.1"]).await;
    assert_eq!(addresses(&snapshot, "web"), ["10.1.0.2"]);
    let mut stray = world::slice("a", "api", &["10.1.0.1"]);
    stray["metadata"]["labels"] = json!({});
    fake.change(|world| world.put(stray));
    follower.until("the loss", |it| slices(it, "api").is_empty()).await;
}

/// The last version of a deleted object may be one that cannot be decoded.
#[tokio::test]
async fn a_deletion_needs_the_name_only() {
    for (json_only, broken) in [(false, "type"), (false, "length"), (true, "type")] {
        let mut world = World { json_only, ..World::default() };
        for name in ["web", "api"] {
            world.put(world::service(name, "10.96.0.1"));
            world.put(world::slice(&format!("{name}-a"), name, &["10.1.0.1"]));
        }
        let fake = Fake::start(world).await;
        let follower = Follower::of(&fake);
        follower.ready().await;
        fake.change(|world| {
            for key in ["Service/web", "EndpointSlice/web-a"] {
                world.objects.get_mut(key).unwrap()["broken"] = json!(broken);
                world.delete(key);
            }
        });
        let is_gone = |it: &Snapshot| service(it, "web").is_none() && slices(it, "web").is_empty();
        let snapshot = follower.until("the deletion", is_gone).await;
        assert!(service(&snapshot, "api").is_some() && slices(&snapshot, "api").len() == 1);
    }
}

#[tokio::test]
async fn bytes_that_are_not_text_are_no_error_in_fields_that_are_not_used() {
    let invalid = format!("a{INVALID}b");
    let mut service_object = with(world::service("web", "10.96.0.1"), json!({"selector": {"app": invalid}}));
    let mut slice_object = world::slice("web-a", "web", &["10.1.0.1"]);
    for object in [&mut service_object, &mut slice_object] {
        object["metadata"]["annotations"] =
            json!({"note": invalid, "endpoints.kubernetes.io/last-change-trigger-time": invalid});
        object["metadata"]["labels"][&invalid] = json!(invalid);
    }
    for streaming in [true, false] {
        for json_only in [false, true] {
            let mut world = World { json_only, ..World::default() };
            [&service_object, &slice_object].into_iter().for_each(|object| world.put(object.clone()));
            let fake = Fake::start(world).await;
            let snapshot = Follower::tuned(&fake, Tuning { streaming, ..tuning() }).ready().await;
            assert!(service(&snapshot, "web").is_some(), "streaming {streaming}, JSON {json_only}");
            assert_eq!(addresses(&snapshot, "web"), ["10.1.0.1"]);
        }
    }
}

#[tokio::test]
async fn an_endpoint_has_the_name_of_its_pod() {
    let mut slice = world::slice("web-a", "web", &["10.1.0.1", "10.1.0.2"]);
    slice["endpoints"][0]["targetRef"] = json!({"kind": "Pod", "namespace": "default", "name": "web-1"});
    slice["endpoints"][1]["targetRef"] = json!({"kind": "Pod", "namespace": "default", "name": "evil\u{1b}"});
    let snapshot = snapshot_of(&[world::service("web", "10.96.0.1"), slice]).await;
    let slices = slices(&snapshot, "web");
    let names: Vec<_> = slices.iter().flat_map(|slice| &slice.endpoints).map(|it| it.pod.as_deref()).collect();
    assert_eq!(names, [Some("web-1"), None]);
}
