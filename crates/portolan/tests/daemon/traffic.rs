//! Continuous traffic during a test.

use portolan_testkit::{Load, LongConnection, Protocol, Stream};

use crate::node::{Node, WEB, WEB_IP, service};
use crate::poll::until;

/// From a pod, from an endpoint, from the node and from outside: new connections all the time, and lasting ones.
pub(crate) struct Traffic {
    load: Load,
    lasting: Vec<LongConnection>,
}

const NODE_PORT: &str = "192.168.50.1:30080";
const NEW_PER_SECOND: u32 = 500;

impl Traffic {
    pub(crate) fn start(node: &Node) -> Self {
        let stream = |from, to: &str| Stream { from, to: to.parse().unwrap() };
        let streams =
            [stream("pod-a3", WEB), stream("pod-a1", WEB), stream("node-a", WEB), stream("client", NODE_PORT)];
        let lasting = (0..20).map(|_| node.connect("pod-a3", WEB, Protocol::Tcp));
        let lasting = lasting.chain((0..20).map(|_| node.connect("client", NODE_PORT, Protocol::Tcp))).collect();
        Self { load: node.lab.load(&streams, NEW_PER_SECOND), lasting }
    }

    pub(crate) fn go_on(&self) {
        self.open_more();
        self.use_lasting();
    }

    pub(crate) fn open_more(&self) {
        let before = self.load.opened();
        until("traffic continues", || self.load.opened() > before + 600);
    }

    fn use_lasting(&self) {
        for connection in &self.lasting {
            assert_eq!(connection.exchange(b"hello").unwrap(), b"hello");
        }
    }

    /// Ends the lasting connections.
    pub(crate) fn end_lasting(&mut self) {
        self.lasting.clear();
    }

    pub(crate) fn stop_without_failures(self) {
        let outcome = self.load.stop();
        assert_eq!(outcome.failures, Vec::<String>::new(), "of {} connections", outcome.connections);
    }
}

/// A node without a daemon, with a Service at a ClusterIP and a node port and two endpoints that answer.
pub(crate) fn node_with_service() -> Node {
    let node = Node::new();
    let spec = service("web", WEB_IP, "type: NodePort", &["10.244.1.2", "10.244.2.2"]);
    node.write("web.yaml", &spec.replace("{port: 80,", "{port: 80, nodePort: 30080,"));
    node.serve(&["10.244.1.2:8080", "10.244.2.2:8080"], Protocol::Tcp);
    node
}
