//! Both ends of a connection that is reset when its endpoint is removed.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use portolan_dataplane::mode::Mode;

use crate::node::{Node, WEB, WEB_IP, service};
use crate::poll::until;

pub(crate) const RESET: &str = "portolan.dev/connections-of-removed-endpoints: reset";
/// Far longer than a reset takes, and far shorter than TCP takes to give up.
pub(crate) const SOON: Duration = Duration::from_secs(10);
/// How long a connection is observed that must stay.
pub(crate) const A_WHILE: Duration = Duration::from_secs(2);

pub(crate) fn annotated(annotation: &str, manifest: &str) -> String {
    manifest.replacen("metadata: {", &format!("metadata: {{annotations: {{{annotation}}}, "), 1)
}

/// Both ends of a connection through the Service, which carries a byte in each direction.
pub(crate) struct Pair {
    pub(crate) client: TcpStream,
    server: TcpStream,
}

impl Pair {
    pub(crate) fn open(node: &Node, from: &str, to: &str, pod: &str, endpoint: &str) -> Self {
        let endpoint: SocketAddr = endpoint.parse().unwrap();
        let listener = listen(node, pod, endpoint);
        let to: SocketAddr = to.parse().unwrap();
        let mut client = node.lab.host(from).run(|| TcpStream::connect_timeout(&to, SOON)).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(b"?").unwrap();
        server.read_exact(&mut [0]).unwrap();
        server.write_all(b"!").unwrap();
        client.read_exact(&mut [0]).unwrap();
        Self { client, server }
    }

    pub(crate) fn assert_reset(&self, what: &str) {
        assert_eq!(outcome(&self.client, SOON), Err(ErrorKind::ConnectionReset), "{what}: the client");
        assert_eq!(outcome(&self.server, SOON), Err(ErrorKind::ConnectionReset), "{what}: the server");
    }

    pub(crate) fn assert_open(&mut self, what: &str) {
        assert_eq!(outcome(&self.client, A_WHILE), Err(ErrorKind::WouldBlock), "{what}");
        self.client.write_all(b"?").unwrap();
        self.server.set_read_timeout(Some(SOON)).unwrap();
        self.server.read_exact(&mut [0]).unwrap();
    }
}

/// A process that another test forks has the listener of the last connection until it executes its program.
fn listen(node: &Node, pod: &str, endpoint: SocketAddr) -> TcpListener {
    let mut listener = None;
    until("the port is free", || {
        listener = node.lab.host(pod).run(|| TcpListener::bind(endpoint)).ok();
        listener.is_some()
    });
    listener.unwrap()
}

pub(crate) fn outcome(mut stream: &TcpStream, within: Duration) -> Result<usize, ErrorKind> {
    stream.set_read_timeout(Some(within)).unwrap();
    loop {
        // Signals of other tests in this process interrupt a read with a timeout.
        match stream.read(&mut [0]).map_err(|error| error.kind()) {
            Err(ErrorKind::Interrupted) => {}
            outcome => return outcome,
        }
    }
}

pub(crate) fn started(mode: &dyn Mode, manifest: &str) -> Node {
    let mut node = Node::new();
    node.write("web.yaml", manifest);
    let ranges = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";
    node.start_with(&[&format!("--proxy-mode={}", mode.name()), ranges]);
    node
}

/// From a pod, from the node, and from outside through a node port, where the endpoint sees the node's address.
pub(crate) fn check_both_sides(mode: &dyn Mode) {
    let with = |endpoints: &[&str]| {
        annotated(
            RESET,
            &service("web", WEB_IP, "type: NodePort", endpoints).replace("{port: 80,", "{port: 80, nodePort: 30080,"),
        )
    };
    let node = started(mode, &with(&["10.244.1.2"]));
    let open = |from, to| Pair::open(&node, from, to, "pod-a1", "10.244.1.2:8080");
    let pairs = [open("pod-a3", WEB), open("node-a", WEB), open("client", "192.168.50.1:30080")];
    node.write("web.yaml", &with(&["10.244.2.2"]));
    for (pair, from) in pairs.iter().zip(["a pod", "the node", "outside"]) {
        pair.assert_reset(&format!("{} mode, from {from}", mode.name()));
    }
}
