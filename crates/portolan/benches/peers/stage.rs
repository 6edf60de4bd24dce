//! The cluster for all measurements: a real API server, one node, and a pod that answers for every endpoint.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use portolan_testkit::cluster::{Client, ControlPlane, Identity, node, path_of};
use portolan_testkit::{Host, Lab, topology};
use serde_json::{Value, json};

/// The client's pod, and the pod that owns the addresses of all endpoints.
pub(crate) const CLIENT: &str = "pod-a1";
const SERVER: &str = "pod-a2";
const SERVER_ADDRESS: &str = "10.244.1.3";
const ENDPOINT_RANGE: &str = "11.0.0.0/8";
pub(crate) const ENDPOINT_PORT: u16 = 8080;
/// Time for the API server's own controllers to process new objects.
const SETTLE: Duration = Duration::from_secs(10);
const CREATED: &str = "2026-01-01T00:00:00Z";

pub(crate) struct Stage {
    pub(crate) services: u32,
    pub(crate) endpoints: u32,
    pub(crate) lab: Arc<Lab>,
    pub(crate) control_plane: ControlPlane,
}

impl Stage {
    /// A server of the argument's port must answer on every address of its namespace. The node and its pods are in a cgroup of
    /// their own, where hooks can be attached.
    pub(crate) fn build(serve: impl FnOnce(u16) + Send) -> Self {
        let lab = Arc::new(Lab::with_cgroup().expect("root is needed for the lab"));
        let route = |host: &str, words: &[&str]| lab.host(host).command(words).expect("the route can be made");
        route(topology::NODE, &["ip", "route", "add", ENDPOINT_RANGE, "via", SERVER_ADDRESS]);
        route(SERVER, &["ip", "route", "add", "local", ENDPOINT_RANGE, "dev", "lo"]);
        lab.host(SERVER).run(|| serve(ENDPOINT_PORT));
        let control_plane = ControlPlane::start(&lab).expect("the control plane starts");
        let stage = Self { services: 0, endpoints: 0, lab, control_plane };
        stage.client().create(&node("node-a")).expect("the node is registered");
        stage.client().set_status(&node("node-a")).expect("the node gets its addresses");
        stage
    }

    /// Adds Services until there are so many, and gives each so many endpoints.
    pub(crate) fn grow(&mut self, services: u32, endpoints: u32) {
        let old = if self.endpoints == endpoints { 0..0 } else { 0..self.services };
        let new = self.services..services;
        let mut objects: Vec<Value> = old.map(|number| slice(number, endpoints)).collect();
        objects.extend(new.flat_map(|number| [address(number), service(number), slice(number, endpoints)]));
        eprintln!("storing {} objects", objects.len());
        self.control_plane.store_all(&objects).expect("objects can be stored");
        (self.services, self.endpoints) = (services, endpoints);
        let last = path_of(&slice(services - 1, endpoints));
        self.client().get(&last).expect("the API server serves what was stored");
        std::thread::sleep(SETTLE);
    }

    /// Gives a Service these endpoints, and returns when the API server has accepted it.
    pub(crate) fn set_endpoints(&self, number: u32, addresses: &[Ipv4Addr]) {
        let patch = json!({"endpoints": addresses.iter().copied().map(endpoint).collect::<Vec<_>>()});
        self.client().patch(&path_of(&slice(number, 0)), &patch).expect("the slice can be changed");
    }

    /// Gives a Service an annotation, or takes all from it.
    pub(crate) fn annotate(&self, number: u32, annotation: Option<(&str, &str)>) {
        let annotations = annotation.map(|(key, value)| json!({key: value}));
        let patch = json!({"metadata": {"annotations": annotations}});
        self.client().patch(&path_of(&service(number)), &patch).expect("the Service can be changed");
    }

    /// An endpoint drops everything that it gets.
    pub(crate) fn hang(&self, endpoint: Ipv4Addr) {
        let rules = format!(
            "add table ip hang\nadd chain ip hang input {{ type filter hook input priority 0; }}\n\
             add rule ip hang input ip daddr {endpoint} drop\n"
        );
        self.lab.host(SERVER).command_with_input(&["nft", "-f", "-"], &rules).expect("a pod has its own rules");
    }

    pub(crate) fn recover(&self) {
        self.lab.host(SERVER).command(&["nft", "delete", "table", "ip", "hang"]).expect("an endpoint hangs");
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig(Identity::KubeProxy)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.control_plane.folder().into()
    }

    pub(crate) fn node(&self) -> &Host {
        self.lab.host(topology::NODE)
    }

    pub(crate) fn client_host(&self) -> &Host {
        self.lab.host(CLIENT)
    }

    fn client(&self) -> &Client {
        self.control_plane.client()
    }
}

/// The API server itself uses the first addresses of the range.
pub(crate) fn vip(number: u32) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(0x0a60_0100 + number).into(), 80)
}

pub(crate) fn endpoint_address(number: u32, index: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0b00_0000 + number * 8 + index)
}

/// An address that no Service has used yet.
pub(crate) fn fresh_address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0bc8_0000 + number)
}

pub(crate) fn service(number: u32) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": format!("s{number}"),
            "namespace": "default",
            "uid": identifier(1, number),
            "creationTimestamp": CREATED,
        },
        "spec": {
            "clusterIP": vip(number).ip(),
            "clusterIPs": [vip(number).ip()],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "type": "ClusterIP",
            "ports": [{"name": "http", "port": 80, "targetPort": ENDPOINT_PORT, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {}},
    })
}

/// The API server records the allocated address and its Service in this object.
pub(crate) fn address(number: u32) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": vip(number).ip(),
            "uid": identifier(2, number),
            "creationTimestamp": CREATED,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {
            "parentRef": {"group": "", "resource": "services", "namespace": "default", "name": format!("s{number}")},
        },
    })
}

fn identifier(kind: u32, number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-{kind:012x}")
}

pub(crate) fn slice(number: u32, endpoints: u32) -> Value {
    let addresses = (0..endpoints).map(|index| endpoint_address(number, index));
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("s{number}-a"),
            "namespace": "default",
            "uid": identifier(3, number),
            "creationTimestamp": CREATED,
            "generation": 1,
            "labels": {"kubernetes.io/service-name": format!("s{number}")},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": ENDPOINT_PORT, "protocol": "TCP"}],
        "endpoints": addresses.map(endpoint).collect::<Vec<_>>(),
    })
}

/// One in a hundred is on the node that is measured.
pub(crate) fn endpoint(address: Ipv4Addr) -> Value {
    json!({
        "addresses": [address],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": if u32::from(address) % 100 == 0 { "node-a" } else { "node-b" },
    })
}
