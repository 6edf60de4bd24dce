//! How new connections are shared among endpoints.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, TcpStream};

use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_model::Algorithm;
use portolan_testkit::Protocol;

use crate::moving::check_that_few_clients_move;
use crate::node::{Node, WEB, WEB_IP, web};

const CONNECTIONS: usize = 8_000;

/// The share of each server that answered, by the name of its pod.
fn shares(node: &Node) -> BTreeMap<String, f64> {
    let answers = node.lab.host("pod-a3").run(|| (0..CONNECTIONS).map(|_| answer()).collect::<Vec<String>>());
    let mut shares = BTreeMap::new();
    for pod in answers {
        *shares.entry(pod).or_default() += 1.0 / CONNECTIONS as f64;
    }
    shares
}

/// The server's line begins with the name of its host.
fn answer() -> String {
    let mut connection = TcpStream::connect(WEB).expect("the Service answers");
    let mut line = [0; 64];
    let length = connection.read(&mut line).expect("the server sends its line");
    String::from_utf8_lossy(&line[..length]).split(' ').next().unwrap_or_default().to_owned()
}

/// Two slices, of which the first has three times the weight of the second.
fn weighted(cluster_ip: &str) -> String {
    let light = "apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: light, labels: {kubernetes.io/service-name: web}, annotations: {portolan.dev/weight: '50'}}
addressType: IPv4
ports: [{name: '', port: 8080}]
endpoints: [{addresses: [10.244.2.2]}]
";
    let heavy = web(cluster_ip, &["10.244.1.2"]);
    heavy.replace("labels: {", "annotations: {portolan.dev/weight: '150'}, labels: {") + "---\n" + light
}

/// Far more than chance explains, and far less than a share that does not regard weights: that would be off by a quarter.
const TOLERANCE: f64 = 0.02;

#[test]
fn connections_are_shared_by_weight_in_every_mode() {
    let address: IpAddr = WEB_IP.parse().expect("an address");
    for mode in modes::ALL.iter().filter(|mode| mode.missing().is_none()) {
        let mut node = Node::new();
        node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
        node.write("web.yaml", &weighted(&address.to_string()));
        node.start_with(&[&format!("--proxy-mode={}", mode.name())]);
        let shares = shares(&node);
        let share = |pod: &str| shares.get(pod).copied().unwrap_or_default();
        assert!((share("pod-a1") - 0.75).abs() < TOLERANCE, "{} mode: {shares:?}", mode.name());
        assert!((share("pod-b1") - 0.25).abs() < TOLERANCE, "{} mode: {shares:?}", mode.name());
    }
}

/// `--nocapture` prints how many.
#[test]
fn few_clients_move_when_an_endpoint_leaves_a_maglev_table() {
    let has_maglev = |mode: &&&dyn Mode| !mode.limits().lacks.contains(Algorithm::Maglev);
    for mode in modes::ALL.iter().filter(has_maglev).filter(|mode| mode.missing().is_none()) {
        check_that_few_clients_move(*mode);
    }
}
