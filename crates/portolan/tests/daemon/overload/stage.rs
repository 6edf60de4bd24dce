//! The lab's node with a daemon that watches the scripted API server.

use std::net::TcpListener;
use std::sync::mpsc::channel;

use portolan_testkit::topology;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::fake::Fake;
use super::world::{self, World};
use crate::node::Node;
use crate::poll::until;

pub(crate) struct Stage {
    pub(crate) node: Node,
    pub(crate) server: Fake,
    /// The server ends when it is dropped.
    _end: oneshot::Sender<()>,
}

impl Stage {
    /// With the Service `web` and one endpoint in force.
    pub(crate) fn start() -> Self {
        let mut node = Node::new();
        let mut world = World::default();
        world.put(world::service("web", "10.96.0.80"));
        world.put(world::slice("web-a", "web", &["10.244.1.2"]));
        world.put(world::node("zone"));
        let listener = node.lab.host(topology::NODE).run(|| TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let (server, end) = serve(listener, world);
        let master = format!("http://{}", server.address);
        node.start_plainly(&[
            "proxy",
            "--master",
            &master,
            "--hostname-override",
            "here",
            "--cluster-cidr",
            "10.244.0.0/16",
        ]);
        let stage = Self { node, server, _end: end };
        stage.until_serving("10.96.0.80");
        stage
    }

    /// Puts another Service, and waits until the kernel serves it.
    pub(crate) fn add_and_follow(&self, number: u8) {
        let address = format!("10.96.9.{number}");
        self.server.change(|world| {
            world.put(world::service(&format!("marker-{number}"), &address));
            world.put(world::slice(&format!("marker-{number}-a"), &format!("marker-{number}"), &["10.244.1.3"]));
        });
        self.until_serving(&address);
    }

    pub(crate) fn until_serving(&self, address: &str) {
        until(&format!("{address} is served"), || self.serves(address));
    }

    fn serves(&self, address: &str) -> bool {
        let words = format!("nft get element ip portolan cluster-ips {{ {address} }}");
        let words: Vec<&str> = words.split(' ').collect();
        self.node.lab.host(topology::NODE).command(&words).is_ok()
    }

    /// The number of Service addresses in the kernel.
    pub(crate) fn count_served(&self) -> usize {
        self.node.nft("list set ip portolan cluster-ips").matches("10.96.").count()
    }
}

/// Starts the server on a thread of its own.
fn serve(listener: TcpListener, world: World) -> (Fake, oneshot::Sender<()>) {
    listener.set_nonblocking(true).expect("a socket");
    let (started, start) = channel();
    let (end, over) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            started.send(Fake::start_on(listener, world)).expect("the test waits");
            _ = over.await;
        });
    });
    (start.recv().expect("the server starts"), end)
}
