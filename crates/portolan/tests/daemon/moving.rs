//! How many clients get another endpoint when one of ten leaves, and when it returns, by real connections.

use std::net::SocketAddr;

use portolan_dataplane::mode::Mode;
use portolan_testkit::{Outcome, Protocol, Source};

use crate::node::Node;
use crate::poll::until;

const WEB: &str = "10.96.0.80:80";
const PODS: [&str; 5] = ["10.244.1.2", "10.244.1.3", "10.244.2.2", "10.244.2.3", "10.244.2.4"];
const PORTS: [u16; 2] = [8080, 8081];
const CLIENTS: usize = 250;

/// The endpoints of both ports, without the last one if it is gone.
fn endpoints(is_whole: bool) -> Vec<String> {
    let all = PORTS.iter().flat_map(|port| PODS.iter().map(move |pod| format!("{pod}:{port}")));
    all.take(if is_whole { 10 } else { 9 }).collect()
}

fn write(node: &Node, endpoints: &[String]) {
    let mut text = "apiVersion: v1
kind: Service
metadata: {name: web, annotations: {portolan.dev/algorithm: maglev}}
spec: {clusterIP: 10.96.0.80, ports: [{port: 80}]}
"
    .to_owned();
    for port in PORTS {
        let of_port = endpoints.iter().filter_map(|it| it.strip_suffix(&format!(":{port}")));
        let addresses: Vec<String> = of_port.map(|address| format!("{{addresses: [{address}]}}")).collect();
        text += &format!(
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-{port}, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: '', port: {port}}}]
endpoints: [{}]
",
            addresses.join(", ")
        );
    }
    node.write("web.yaml", &text);
}

/// The endpoint that each client reaches.
fn reached(node: &Node) -> Vec<SocketAddr> {
    let destination: SocketAddr = WEB.parse().expect("an address");
    let reached = |client: usize| {
        let source = Source::parse(&format!("192.0.2.{client}"), destination.ip()).expect("an address of the lab");
        match node.lab.probe(&source, destination, Protocol::Tcp, std::time::Duration::from_secs(20)) {
            Outcome::Answered { endpoint, .. } => endpoint,
            outcome => panic!("client {client}: {outcome:?}"),
        }
    };
    (1..=CLIENTS).map(reached).collect()
}

/// Prints the figures. With 250 clients, chance makes them differ from those of the table by a percent or two.
pub(crate) fn check_that_few_clients_move(mode: &dyn Mode) {
    let mut node = Node::new();
    let all = endpoints(true);
    node.serve(&all.iter().map(String::as_str).collect::<Vec<_>>(), Protocol::Tcp);
    write(&node, &all);
    node.start_with(&[&format!("--proxy-mode={}", mode.name()), "--cluster-cidr=10.244.0.0/16"]);
    let before = reached(&node);
    let gone: SocketAddr = all[9].parse().expect("an endpoint");
    write(&node, &endpoints(false));
    let left = until_served(&node, "the endpoint is gone", |reached| !reached.contains(&gone));
    write(&node, &all);
    let returned = until_served(&node, "the endpoint is back", |reached| reached.contains(&gone));
    let of_gone = before.iter().filter(|it| **it == gone).count();
    let others = before.iter().zip(&left).filter(|(before, left)| **before != gone && before != left).count();
    let percent = |count: usize| count as f64 * 100.0 / CLIENTS as f64;
    println!(
        "{} mode, one of 10 endpoints leaves: its own {:.1} % of {CLIENTS} clients and {:.1} % of the others move; after its \
         return {:.1} % have another endpoint than at first",
        mode.name(),
        percent(of_gone),
        percent(others),
        percent(before.iter().zip(&returned).filter(|(before, after)| before != after).count())
    );
    assert!(of_gone > 0 && percent(others) < 5.0, "{others} of {CLIENTS} clients moved");
    assert_eq!(before, returned, "every client has its endpoint back");
}

/// Measured again once it is so, because the change may have come in the middle.
fn until_served(node: &Node, what: &str, is_served: impl Fn(&[SocketAddr]) -> bool) -> Vec<SocketAddr> {
    until(what, || is_served(&reached(node)));
    reached(node)
}
