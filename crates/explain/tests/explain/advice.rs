//! What a refusal says about its remedy.

use portolan_dataplane::{ModeSettings, modes};
use portolan_explain::{Names, PathAnswer, PathQuestion, Style};
use portolan_model::TrafficPolicy;

use crate::world::{World, address, cluster, port};

fn answer(world: &World, source: &str, destination: &str) -> PathAnswer {
    let plan = world.plan();
    let question = PathQuestion { source: source.into(), destination: destination.into(), ..PathQuestion::default() };
    let paths = question.paths(&Names { plan: &plan, domain: "cluster.local", node: &|_| Vec::new() }).unwrap();
    let met = modes::default().view(&ModeSettings::default(), None).trace_all(&plan, &paths.packets());
    let answer = PathAnswer::of(&plan, &paths, &met, "the objects");
    assert!(!answer.disagrees());
    answer
}

fn advice(world: &World, source: &str, destination: &str) -> String {
    answer(world, source, destination).packets[0].advice.join("; ")
}

#[test]
fn pods_that_are_not_ready_are_named() {
    let mut world = cluster();
    world.endpoints("shop/web", &[("", 8080)], &["!cart-1 10.244.1.9 node-a", "!- 10.244.1.8 node-b"]);
    assert_eq!(
        advice(&world, "web-2", "svc/shop/web"),
        "pod shop/cart-1 (10.244.1.9 on node-a) is not ready; endpoint 10.244.1.8 on node-b is not ready"
    );
    world.endpoints("shop/web", &[("http", 8080)], &["cart-1 10.244.1.9 node-a"]);
    assert_eq!(
        advice(&world, "web-2", "svc/shop/web"),
        r#"the EndpointSlices have no port named "": theirs are "http" (8080/tcp)"#
    );
    world.endpoints("shop/web", &[], &[]);
    let text = advice(&world, "web-2", "svc/shop/web");
    assert!(text.contains("spec.selector") && text.contains("-l kubernetes.io/service-name=web"), "{text}");
    let names: Vec<String> = (1..=20).map(|number| format!("!p-{number} 10.244.1.{number} node-a")).collect();
    world.endpoints("shop/web", &[("", 8080)], &names.iter().map(|it| &**it).collect::<Vec<_>>());
    assert!(advice(&world, "web-2", "svc/shop/web").ends_with("; and 12 more"));
}

#[test]
fn nodes_with_an_endpoint_are_named() {
    let mut world = cluster();
    world.service("shop/web", |it| {
        it.cluster_ips = [address("10.96.0.81")].into();
        it.ports = [port("", 80, None)].into();
        it.internal_policy = TrafficPolicy::Local;
    });
    world.endpoints("shop/web", &[("", 8080)], &["w-1 10.244.2.1 node-b", "w-2 10.244.2.2 node-b"]);
    assert_eq!(advice(&world, "web-2", "svc/shop/web"), "ready endpoints run on node-b (2); this node is node-a");
}

#[test]
fn ports_and_ranges_are_named() {
    let mut world = cluster();
    let expected = "10.96.0.80 has the ports 80/tcp (default/web:http), 9090/tcp (default/web:metrics)";
    assert_eq!(advice(&world, "web-2", "svc/default/web:81"), expected);
    assert!(advice(&world, "client-ip", "lb/default/web:81").contains("198.51.100.10 has the ports 80/tcp"));
    assert!(advice(&world, "web-2", "10.96.7.7:80").contains("may have been deleted"));
    let elsewhere = "30080 is a node port of default/web:http, which is served at 192.168.50.1 (--nodeport-addresses)";
    assert_eq!(advice(&world, "web-2", "192.168.50.2:30080"), elsewhere);
    world.service("default/web", |it| {
        it.kind = portolan_model::ServiceKind::LoadBalancer;
        it.load_balancer_ips = [address("198.51.100.10")].into();
        it.cluster_ips = [address("10.96.0.80")].into();
        it.source_ranges = ["192.0.2.0/24".parse().unwrap()].into();
        it.ports = [port("http", 80, None)].into();
    });
    assert_eq!(advice(&world, "client-ip", "lb/default/web"), "allowed are 192.0.2.0/24");
}

#[test]
fn one_packet_is_explained_in_full_and_several_as_a_table() {
    let world = cluster();
    let text = answer(&world, "web-2", "svc/default/web:http").text(Style::PLAIN);
    assert!(
        text.starts_with("pod/default/web-2 -> svc/default/web:http\n10.244.2.2 -> 10.96.0.80:80/tcp\n\n"),
        "{text}"
    );
    assert!(
        text.contains("  10.244.1.2:8080           50.0 %  sees the client's address  pod default/web-1\n"),
        "{text}"
    );
    let text = answer(&world, "web-2", "svc/default/web").text(Style::PLAIN);
    let expected = "\
FROM               TO                       PACKET                             OUTCOME                          ENDPOINTS
pod/default/web-2  svc/default/web:http     10.244.2.2 -> 10.96.0.80:80/tcp    forwarded to one of 2 endpoints  10.244.1.2:8080 (pod default/web-1)
                                                                                                                10.244.2.2:8080 (pod default/web-2)
";
    assert!(text.starts_with(expected), "{text}");
}
