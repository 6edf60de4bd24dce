//! `portolan.exe` watches a real API server. `make test-windows-cluster` runs this.

use std::sync::Arc;

use portolan_testkit::cluster::{ControlPlane, Identity, Program, node};
use portolan_testkit::{Lab, topology};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::machine::{Machine, end_wine, spelled};

const SLICE: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1";

fn endpoints(addresses: &[&str]) -> Vec<Value> {
    let node = |address: &str| if address.starts_with("10.244.1.") { "node-a" } else { "node-b" };
    let endpoint =
        |address: &&str| json!({"addresses": [address], "nodeName": node(address), "conditions": {"ready": true}});
    addresses.iter().map(endpoint).collect()
}

fn objects() -> [Value; 2] {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.80", "ports": [{"port": 80, "targetPort": 8080}]},
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints(&["10.244.1.2", "10.244.2.2"]),
    });
    [service, slice]
}

#[test]
fn services_of_an_api_server_are_followed_through_its_restart() {
    end_wine();
    let lab = Arc::new(Lab::new().expect("a lab"));
    let mut server = ControlPlane::start(&lab).expect("a control plane");
    for object in ["node-a", "node-b"].map(node) {
        server.client().create(&object).expect("a new Node");
        server.client().set_status(&object).expect("its status");
    }
    objects().iter().for_each(|object| drop(server.client().create(object).expect("a new object")));
    let machine = Machine::new();
    let kubeconfig = spelled(&server.kubeconfig(Identity::KubeProxy));
    let command = machine.proxy(&["--kubeconfig", &kubeconfig]);
    let host = lab.host(topology::NODE);
    let daemon = Program::start(host, "portolan.exe", command, &machine.log_file()).expect("wine");
    machine.until(&["10.96.0.80:80 -> 10.244.1.2 10.244.2.2"]);
    server.kill_api_server();
    server.start_api_server().expect("the same API server");
    let patch = json!({"endpoints": endpoints(&["10.244.2.2", "10.244.2.3"])});
    server.client().patch(SLICE, &patch).expect("a change");
    machine.until(&["10.96.0.80:80 -> 10.244.2.2 10.244.2.3"]);
    server.client().delete("/api/v1/namespaces/default/services/web").expect("a removal");
    machine.until(&[]);
    machine.until_so(|| machine.remote_endpoints() == 0, || machine.state().to_string());
    daemon.end(Signal::TERM);
}
