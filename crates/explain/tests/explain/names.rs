//! Names instead of addresses, and what is said about those that are not found.

use portolan_explain::{Names, PathQuestion, Paths, printable};
use portolan_plan::Plan;

use crate::world::{address, cluster};

fn paths(plan: &Plan, source: &str, destination: &str) -> Result<Paths, String> {
    let question = PathQuestion { source: source.into(), destination: destination.into(), ..PathQuestion::default() };
    let node = |name: &str| if name == "node-c" { vec![address("192.168.50.3")] } else { Vec::new() };
    question.paths(&Names { plan, domain: "cluster.local.", node: &node })
}

/// Each packet in a line.
fn found(source: &str, destination: &str) -> Vec<String> {
    let found = paths(&cluster().plan(), source, destination).expect("the names are known");
    found.packets.iter().map(|named| named.packet.to_string()).collect()
}

fn refused(source: &str, destination: &str) -> String {
    paths(&cluster().plan(), source, destination).expect_err("the names are not known")
}

#[test]
fn names_stand_for_addresses() {
    let web_1 = "10.244.1.2 -> 10.96.0.80:80/tcp";
    let web_1_v6 = "fd00:10:244:1::2 -> [fd00:10:96::80]:80/tcp";
    for (source, destination, expected) in [
        ("pod/default/web-1", "svc/default/web:http", &[web_1, web_1_v6][..]),
        // A bare name is looked up in the namespace of the pod first.
        ("default/web-1", "web:http", &[web_1, web_1_v6]),
        ("web-1.default", "web.default:80", &[web_1, web_1_v6]),
        ("cart-1", "svc/web", &["10.244.1.9 -> 10.96.0.81:80/tcp"]),
        ("web-2", "web.default.svc.cluster.local:metrics", &["10.244.2.2 -> 10.96.0.80:9090/tcp"]),
        ("client-ip", "lb/default/web:http", &["203.0.113.1 -> 198.51.100.10:80/tcp"]),
        (
            "node-b",
            "nodeport/default/web:http",
            &["192.168.50.2 -> 192.168.50.1:30080/tcp", "fd00:50::2 -> [fd00:50::1]:30080/tcp"],
        ),
        ("node/node-c", "nodeport/default/web:30090", &["192.168.50.3 -> 192.168.50.1:30090/tcp"]),
        ("10.244.1.4", "kube-dns:53", &["10.244.1.4 -> 10.96.0.10:53/udp", "10.244.1.4 -> 10.96.0.10:53/tcp"]),
        ("10.244.1.4", "kube-dns:53/udp", &["10.244.1.4 -> 10.96.0.10:53/udp"]),
        ("10.244.1.4", "kube-dns:dns", &["10.244.1.4 -> 10.96.0.10:53/udp"]),
        ("10.244.1.4", "svc/default/web:81", &["10.244.1.4 -> 10.96.0.80:81/tcp"]),
        ("10.244.1.4", "10.96.0.80:metrics", &["10.244.1.4 -> 10.96.0.80:9090/tcp"]),
        ("10.244.1.4", "10.96.0.80:81/udp", &["10.244.1.4 -> 10.96.0.80:81/udp"]),
        ("fd00::4", "[fd00:10:96::80]:http", &["fd00::4 -> [fd00:10:96::80]:80/tcp"]),
        ("10.244.1.4", "pod/default/web-2:8080", &["10.244.1.4 -> 10.244.2.2:8080/tcp"]),
        ("10.244.1.4", "db", &["10.244.1.4 -> 10.244.2.4:5432/tcp"]),
        ("10.244.1.4", "db-0.db.default.svc.cluster.local:5432", &["10.244.1.4 -> 10.244.2.4:5432/tcp"]),
        ("10-244-1-2.default.pod.cluster.local", "svc/default/web:http", &[web_1]),
    ] {
        assert_eq!(found(source, destination), expected, "{source} {destination}");
    }
}

#[test]
fn without_a_port_all_ports_are_meant() {
    assert_eq!(
        found("10.244.1.4", "svc/default/web"),
        ["10.244.1.4 -> 10.96.0.80:80/tcp", "10.244.1.4 -> 10.96.0.80:9090/tcp"]
    );
    assert_eq!(found("10.244.1.4", "10.96.0.80").len(), 2);
    assert_eq!(found("10.244.1.4", "kube-dns").len(), 2);
    assert_eq!(found("10.244.1.4", "pod/default/web-2").len(), 2);
    assert_eq!(found("web-2", "nodeport/default/web").len(), 2);
    // A Service of one family has node ports in that family alone.
    assert_eq!(found("node-b", "nodeport/default/single"), ["192.168.50.2 -> 192.168.50.1:30099/tcp"]);
}

#[test]
fn an_ambiguous_name_lists_what_it_may_mean() {
    assert_eq!(refused("10.244.1.4", "web"), r#""web" is ambiguous: write one of svc/default/web, svc/shop/web"#);
    assert_eq!(
        refused("web-1", "svc/default/web"),
        r#""web-1" is ambiguous: write one of pod/default/web-1, pod/shop/web-1"#
    );
}

#[test]
fn a_mistyped_name_is_corrected() {
    for (source, destination, expected) in [
        ("web-3.default", "svc/default/web", "did you mean pod/default/web-1 or pod/default/web-2"),
        ("pod/default/wbe-2", "svc/default/web", "did you mean pod/default/web-2"),
        ("node-x", "svc/default/web", "did you mean node/node-a or node/node-b"),
        ("web-2", "svc/default/wbe", r#"no Service is named "default/wbe": did you mean svc/default/web"#),
        ("web-2", "kube-dms", "did you mean svc/kube-system/kube-dns"),
        ("web-2", "kube-dns.default", "did you mean svc/kube-system/kube-dns"),
        ("web-2", "svc/default/kube-dns", "did you mean svc/kube-system/kube-dns"),
        (
            "web-2",
            "svc/default/web:htpp",
            r#"svc/default/web has no port "htpp": did you mean http?; its ports: http 80/tcp (node port 30080), metrics 9090/tcp"#,
        ),
        ("web-2", "nodeport/shop/web", "svc/shop/web has no node ports; its ports: 80/tcp"),
        ("web-2", "lb/shop/web", "there is no status.loadBalancer.ingress"),
        ("web-2", "legacy", "DNS answers with legacy.example.org"),
        ("nothing-like-it", "svc/default/web", "write the address of another pod"),
        ("svc/default/web", "svc/default/web", "a Service is a destination"),
        ("web-2", "default/", "is neither an address nor a name"),
        ("web-2", "svc/default/web:0", "a port is 1 to 65535"),
        ("web-2", "svc/default/web:80/tpc", "unknown protocol"),
        ("fd00::1", "svc/shop/web", "have no address family in common"),
    ] {
        let message = refused(source, destination);
        assert!(message.contains(expected), "{source} {destination}: {message}");
    }
}

/// Slices are written by anyone who may write slices.
#[test]
fn hostile_names_are_escaped_and_hostile_slices_decide_nothing() {
    let mut world = cluster();
    let hostile = "evil\x1b[2J";
    world.endpoints(
        "default/web",
        &[("http", 8080)],
        &[&format!("{hostile} 10.244.1.2 node-a"), "web-2 10.244.2.2 node-b"],
    );
    world.endpoints("default/db", &[("sql", 5432)], &["web-2 10.244.9.9 node-b"]);
    let plan = world.plan();
    let found = paths(&plan, hostile, "svc/default/web:http").expect("it is known");
    assert_eq!(found.packets[0].source.as_deref(), Some("pod/default/evil\\u{1b}[2J"));
    let message = paths(&plan, "evil[2J", "svc/default/web:http").expect_err("there is none");
    assert!(!message.contains('\x1b') && message.contains("\\u{1b}"), "{message}");
    let message = paths(&plan, "web-2", "svc/default/web:http").expect_err("two slices disagree");
    assert_eq!(message, "pod/default/web-2 has several addresses: write one of 10.244.2.2, 10.244.9.9");
    assert_eq!(printable("a\u{202e}b\"\\ ä"), "a\\u{202e}b\"\\ ä");
}

/// A question about a Service with very many ports does a bounded amount of work.
#[test]
fn the_number_of_answers_is_bounded() {
    let mut world = cluster();
    world.service("default/many", |it| {
        it.cluster_ips = [address("10.96.0.90")].into();
        it.ports = (1..=200).map(|number| crate::world::port(&format!("p{number}"), number, None)).collect();
    });
    let found = paths(&world.plan(), "web-2", "svc/many").expect("it is known");
    assert_eq!((found.packets.len(), found.omitted), (64, 136));
}

#[test]
fn a_connection_has_two_ports() {
    let plan = cluster().plan();
    let node = |_: &str| Vec::new();
    let names = Names { plan: &plan, domain: "cluster.local", node: &node };
    let ask = |source: &str, destination: &str| {
        let (source, destination) = (source.into(), destination.into());
        let question = PathQuestion { source, destination, ..PathQuestion::default() };
        question.connection(&names).map(|(named, port)| format!("{port} {}", named.packet))
    };
    let expected = Ok("41882 10.244.2.2 -> 10.96.0.80:80/tcp".to_owned());
    for client in ["web-2:41882", "pod/default/web-2:41882", "10.244.2.2:41882"] {
        assert_eq!(ask(client, "svc/default/web:http"), expected, "{client}");
    }
    let v6 = ask("[fd00::4]:41882", "[fd00:10:96::80]:80");
    assert_eq!(v6, Ok("41882 fd00::4 -> [fd00:10:96::80]:80/tcp".to_owned()));
    assert!(ask("web-2", "svc/default/web:http").unwrap_err().contains("write the client as CLIENT:PORT"));
    assert!(ask("web-2:41882", "svc/default/web").unwrap_err().contains("several addresses or ports"));
}

#[test]
fn a_service_is_named_with_or_without_a_port() {
    let plan = cluster().plan();
    let node = |_: &str| Vec::new();
    let names = Names { plan: &plan, domain: "cluster.local", node: &node };
    let ask = |text: &str| names.service(text).map(|named| format!("{} {:?}", named.service, named.port));
    assert_eq!(ask("default/web"), Ok("default/web None".into()));
    assert_eq!(ask("web.shop"), Ok("shop/web None".into()));
    for text in ["svc/default/web:http", "web.default:80"] {
        assert_eq!(ask(text), Ok("default/web Some(\"http\")".into()), "{text}");
    }
    assert!(ask("web").unwrap_err().contains("is ambiguous"));
    assert!(ask("web.default:81").unwrap_err().contains("its ports: http 80/tcp"));
    assert!(ask("10.96.0.80").unwrap_err().contains("write the name of a Service"));
}
