//! What the daemon costs while nothing changes: 1,000 Services without annotations, and with everything of docs/balancing.md.

use std::fmt::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use portolan_testkit::Protocol;

use crate::node::Node;
use crate::{number_of, table};

const SERVICES: u32 = 1000;
const ENDPOINTS: u32 = 3;
const OPEN_CONNECTIONS: usize = 2000;
/// After the start, so that only the steady state is measured.
const SETTLES: Duration = Duration::from_secs(3);
const EVERYTHING: &str = "\n    portolan.dev/algorithm: least-connections\n    portolan.dev/slow-start: 30s\n    \
                          portolan.dev/quarantine: \"on\"\n    portolan.dev/connections-of-removed-endpoints: reset-after=30s\n    \
                          portolan.dev/rebalance: \"on\"";

pub(crate) fn run() {
    let seconds = Duration::from_secs(number_of("seconds", 20) as u64);
    let rows = [("nothing on", ""), ("everything on", EVERYTHING)].map(|(name, annotations)| {
        let node = Node::start("nftables", &[("services", manifests(annotations))]);
        let pod: SocketAddr = "10.244.1.3:8080".parse().expect("an address");
        node.lab.serve(pod, Protocol::Tcp).expect("the pod serves");
        let idle = node.share_of_a_core(SETTLES, seconds);
        let connections = node.lab.host("pod-a1").run(open_connections);
        let busy = node.share_of_a_core(SETTLES, seconds);
        drop(connections);
        vec![name.into(), percent(idle), percent(busy)]
    });
    let columns = ["", "no connections", "2,000 connections open"];
    table::print("CPU of the idle daemon with 1,000 Services of 3 endpoints, share of one core", &columns, &rows);
    println!("  target: at most 1 % with everything on");
}

fn open_connections() -> Vec<TcpStream> {
    let address: SocketAddr = "10.96.0.1:80".parse().expect("an address");
    (0..OPEN_CONNECTIONS).map(|_| TcpStream::connect(address).expect("the pod answers")).collect()
}

/// The first Service has one endpoint that serves; those of the others do not exist.
fn manifests(annotations: &str) -> String {
    (1..=SERVICES).map(|number| service(number, annotations)).collect()
}

fn service(number: u32, annotations: &str) -> String {
    let (high, low) = (number / 250, number % 250);
    let annotations = if annotations.is_empty() { String::new() } else { format!("\n  annotations:{annotations}") };
    let mut text = format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: s{number}{annotations}\nspec:\n  clusterIP: 10.96.{high}.{low}\n  \
         ports: [{{port: 80, targetPort: 8080}}]\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  \
         name: s{number}\n  labels: {{kubernetes.io/service-name: s{number}}}\naddressType: IPv4\n\
         ports: [{{port: 8080}}]\nendpoints:\n"
    );
    let count = if number == 1 { 1 } else { ENDPOINTS };
    for endpoint in 0..count {
        let address = if number == 1 {
            "10.244.1.3".into()
        } else {
            format!("10.244.{}.{low}", 10 + high * ENDPOINTS + endpoint)
        };
        _ = writeln!(text, "- {{addresses: [{address}], nodeName: node-a}}");
    }
    text + "---\n"
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
