//! What changed between two plans, why, and what it means for clients.

use portolan_explain::{BehaviourChange, Cause, ChangeEntry, ChangesAnswer, Drift, Effects, Style};
use portolan_model::{Protocol, ServicePort, TrafficPolicy};

use crate::world::{World, address};

fn world(endpoints: &[&str]) -> World {
    let mut world = World::new();
    world.service("default/web", |service| {
        service.cluster_ips = [address("10.96.0.10")].into();
        service.ports =
            [ServicePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }].into();
    });
    world.endpoints("default/web", &[("http", 8080)], endpoints);
    world
}

fn entry(before: &World, after: &World) -> ChangeEntry {
    Effects::between(&before.plan(), &after.plan()).into_entry()
}

fn only_cause(entry: &ChangeEntry) -> (&str, &str, &str) {
    let [cause] = entry.causes.as_slice() else { panic!("{:?}", entry.causes) };
    (&cause.kind, &cause.name, &cause.what)
}

#[test]
fn an_endpoint_that_comes_and_goes() {
    let (one, two) = (world(&["a 10.244.1.2 node-a"]), world(&["a 10.244.1.2 node-a", "b 10.244.2.2 node-b"]));
    let added = entry(&one, &two);
    assert_eq!(only_cause(&added).0, "EndpointSlice");
    assert!(only_cause(&added).2.contains("endpoint 10.244.2.2 (pod b) was added"), "{added:?}");
    assert_eq!(added.services, ["default/web"]);
    let BehaviourChange { service, frontend, before, after } = &added.behaviour[0];
    assert_eq!((&**service, &**frontend), ("default/web:http", "10.96.0.10:80/tcp"));
    let texts = (before.as_deref().unwrap(), after.as_deref().unwrap());
    assert!(!texts.0.contains("10.244.2.2") && texts.1.contains("10.244.1.2:8080 or 10.244.2.2:8080"), "{texts:?}");
    assert!(only_cause(&entry(&two, &one)).2.contains("was removed"));
}

#[test]
fn readiness_and_fields_are_named() {
    let (ready, not) = (world(&["a 10.244.1.2 node-a"]), world(&["!a 10.244.1.2 node-a"]));
    assert!(only_cause(&entry(&ready, &not)).2.contains("is not ready"));
    assert!(entry(&ready, &not).behaviour[0].after.as_deref().unwrap().contains("no-endpoints"));
    let mut local = world(&["a 10.244.1.2 node-a"]);
    local.service("default/web", |service| {
        *service = (*ready.0.services.values().next().unwrap()).as_ref().clone();
        service.internal_policy = TrafficPolicy::Local;
    });
    let changed = entry(&ready, &local);
    assert_eq!(
        only_cause(&changed),
        ("Service", "default/web", "spec.internalTrafficPolicy changed from Cluster to Local")
    );
}

#[test]
fn services_that_come_and_go() {
    let (none, one) = (World::new(), world(&[]));
    let added = entry(&none, &one);
    assert!(added.causes[0].what.starts_with("was added"), "{added:?}");
    assert_eq!(added.behaviour[0].before, None);
    let gone = entry(&one, &none);
    assert!(gone.causes.iter().any(|cause| cause.what == "was deleted"), "{gone:?}");
    assert_eq!(gone.behaviour[0].after, None);
}

#[test]
fn nothing_is_told_about_nothing() {
    let world = world(&["a 10.244.1.2 node-a"]);
    assert!(Effects::between(&world.plan(), &world.plan()).is_empty());
}

/// A large pool is not listed, but for what is new.
#[test]
fn large_pools_are_told_in_short() {
    let names: Vec<String> = (1..=200).map(|number| format!("p{number} 10.244.3.{number} node-b")).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let change = entry(&world(&texts[..199]), &world(&texts));
    let after = change.behaviour[0].after.as_deref().unwrap();
    assert!(after.contains("200 endpoints, among them 10.244.3.200:8080"), "{after}");
    assert_eq!(change.behaviour[0].before.as_deref().unwrap().matches("8080").count(), 0);
}

/// However large a change is.
#[test]
fn an_entry_has_a_bounded_size() {
    let mut many = World::new();
    for number in 0..2_000_u32 {
        let [_, _, high, low] = number.to_be_bytes();
        many.service(&format!("default/service-{number}"), |service| {
            service.cluster_ips = [address(&format!("10.96.{high}.{low}"))].into();
            let port = ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None };
            service.ports = [port].into();
        });
    }
    let change = entry(&World::new(), &many);
    assert!(change.size() < 32 * 1024, "{}", change.size());
    assert_eq!(change.services.len() + change.more_services, 2_000);
    assert_eq!(change.behaviour.len() + change.more_behaviour, 2_000);
    let long = Cause::new("Service", "n".repeat(10_000), "é".repeat(10_000));
    assert!(long.name.len() < 500 && long.what.len() < 500);
}

#[test]
fn a_table_for_people_has_no_control_characters() {
    let drift = Drift {
        what: "another process deleted\x1b[2J a chain".into(),
        process: Some("n\x07ft (pid 1)".into()),
        repaired: 1,
    };
    let causes = vec![Cause::new("Service", "default/we\x1b[31mb", "was\nadded")];
    let entry = ChangeEntry {
        unix_ms: 1_794_925_000_123,
        latency_ms: Some(2.13),
        drift: Some(drift),
        causes,
        ..ChangeEntry::default()
    };
    let answer = ChangesAnswer { newest: 1, oldest: 1, is_complete: true, changes: vec![entry.clone()] };
    for text in [answer.text(Style::PLAIN), entry.line() + "\n"] {
        assert!(text.contains("2026-11-17T14:16:40.123Z") && text.contains("2.1 ms"), "{text}");
        assert!(text.lines().all(|line| !line.contains(char::is_control)), "{text:?}");
    }
    assert_eq!(ChangesAnswer::default().text(Style::PLAIN), "no changes\n");
}
