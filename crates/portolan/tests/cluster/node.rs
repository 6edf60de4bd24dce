//! The Node object: its zone, its addresses, its deletion.

use portolan_testkit::{cluster, topology};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{WEB, WEB_IP, endpoint, service, service_path, slice};

const NODE_A: &str = "/api/v1/nodes/node-a";

fn zone(zone: &str) -> Value {
    json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}})
}

/// One endpoint for each of two zones.
fn create_web_in_two_zones(cluster: &Cluster) {
    let mut slice = slice("web", &["10.244.1.2", "10.244.2.2"]);
    slice["endpoints"][0]["hints"] = json!({"forZones": [{"name": "east"}]});
    slice["endpoints"][1]["hints"] = json!({"forZones": [{"name": "west"}]});
    let mut web = service("web", WEB_IP);
    web["spec"]["trafficDistribution"] = json!("PreferClose");
    cluster.create(&web);
    cluster.create(&slice);
}

#[test]
fn a_node_changes_zone_and_is_deleted_and_comes_back() {
    let cluster = Cluster::start();
    create_web_in_two_zones(&cluster);
    cluster.patch(NODE_A, &zone("east"));
    let _daemon = cluster.start_portolan();
    cluster.until_in_force();
    assert_eq!(cluster.answer("pod-a3", WEB), "pod-a1");
    cluster.patch(NODE_A, &zone("west"));
    cluster.until_in_force();
    assert_eq!(cluster.answer("pod-a3", WEB), "pod-b1");

    let connection = cluster.connect("pod-a3", WEB);
    cluster.delete(NODE_A);
    cluster.patch(&service_path("web"), &json!({"spec": {"ports": [{"port": 81, "targetPort": 8080}]}}));
    cluster.until_answer("pod-a3", "10.96.0.80:81", "pod-b1");
    assert_eq!(connection.exchange(b"still here").unwrap(), b"still here");

    let mut node = cluster::node(topology::NODE);
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "east".into();
    cluster.create(&node);
    cluster.control_plane.client().set_status(&node).unwrap();
    cluster.until_in_force();
    assert_eq!(cluster.answer("pod-a3", "10.96.0.80:81"), "pod-a1");
}

/// Node ports move with the node's address, while the program runs.
#[test]
fn node_ports_move_with_the_address_of_the_node() {
    let cluster = Cluster::start();
    let mut web = service("web", WEB_IP);
    web["spec"]["type"] = "NodePort".into();
    web["spec"]["ports"][0]["nodePort"] = 30080.into();
    cluster.create(&web);
    cluster.create(&slice("web", &["10.244.2.2"]));
    let mut daemon = cluster.start_portolan();
    cluster.until_answer("client", "192.168.50.1:30080", "pod-b1");

    let add = ["ip", "address", "add", "192.168.50.77/24", "dev", "eth0"];
    cluster.lab.host(topology::NODE).command(&add).unwrap();
    let addresses = json!({"status": {"addresses": [{"type": "InternalIP", "address": "192.168.50.77"}]}});
    cluster.patch(&format!("{NODE_A}/status"), &addresses);
    cluster.until_answer("client", "192.168.50.77:30080", "pod-b1");
    cluster.until_answer("client", "192.168.50.1:30080", "refused");
    assert!(!daemon.has_ended(), "{}", daemon.log());
    cluster.patch(
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/web-1",
        &json!({"endpoints": [endpoint("10.244.1.2")]}),
    );
    cluster.until_answer("client", "192.168.50.77:30080", "pod-a1");
}
