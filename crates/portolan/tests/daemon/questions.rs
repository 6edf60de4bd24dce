//! Questions by name, to the daemon and to manifests.

use std::process::Output;

use serde_json::Value;

use crate::node::Node;

const CLUSTER: &str = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.80
  selector: {app: web}
  ports:
  - {name: http, port: 80, targetPort: 8080, nodePort: 30080}
  - {name: metrics, port: 9090, nodePort: 30090}
status: {loadBalancer: {ingress: [{ip: 198.51.100.10}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.81, selector: {app: shop}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, labels: {app: web}}
spec: {nodeName: node-a}
status: {podIPs: [{ip: 10.244.1.2}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client-1}
spec: {nodeName: node-a}
status: {podIPs: [{ip: 10.244.1.4}]}
---
apiVersion: v1
kind: Pod
metadata: {name: shop-1, namespace: shop, labels: {app: shop}}
spec: {nodeName: node-b}
status: {podIPs: [{ip: 10.244.2.2}], conditions: [{type: Ready, status: 'False'}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.168.50.1}]}
---
apiVersion: v1
kind: Node
metadata: {name: node-b}
status: {addresses: [{type: InternalIP, address: 192.168.50.2}]}
";

fn running() -> Node {
    Node::running(&[("cluster.yaml", CLUSTER)])
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The same words to both, with the same status.
fn both(node: &Node, words: &[&str], status: i32) -> [String; 2] {
    [node.query(words), node.query_files(words, "manifests")].map(|output| {
        assert_eq!(output.status.code(), Some(status), "{words:?}: {}", text(&output));
        text(&output)
    })
}

#[test]
fn names_stand_for_addresses() {
    let node = running();
    for (source, destination, packet) in [
        ("pod/default/web-1", "svc/default/web:http", "10.244.1.2 -> 10.96.0.80:80/tcp"),
        ("web-1", "web.default:http", "10.244.1.2 -> 10.96.0.80:80/tcp"),
        // A pod that is no endpoint is in the manifests.
        ("client-1", "web:metrics", "10.244.1.4 -> 10.96.0.80:9090/tcp"),
        ("client-ip", "lb/default/web:http", " -> 198.51.100.10:80/tcp"),
        ("node-b", "nodeport/default/web:http", "192.168.50.2 -> 192.168.50.1:30080/tcp"),
        ("10.244.1.4", "web.default.svc.cluster.local:80", "10.244.1.4 -> 10.96.0.80:80/tcp"),
    ] {
        for answer in both(&node, &["explain", source, destination], 0) {
            assert!(
                answer.contains(packet) && answer.contains("pod default/web-1"),
                "{source} {destination}: {answer}"
            );
        }
    }
}

#[test]
fn without_a_port_every_port_is_answered() {
    let node = running();
    for answer in both(&node, &["explain", "web-1", "web"], 0) {
        assert!(answer.contains("svc/default/web:http") && answer.contains("svc/default/web:metrics"), "{answer}");
    }
    for answer in both(&node, &["explain", "web-1", "web", "--output", "json"], 0) {
        let answer: Value = serde_json::from_str(&answer).expect("it is JSON");
        let packets = answer["packets"].as_array().expect("a list");
        let names: Vec<&Value> = packets.iter().map(|packet| &packet["destination_name"]).collect();
        assert_eq!(names, ["svc/default/web:http", "svc/default/web:metrics"]);
        assert!(packets.iter().all(|packet| packet["fate"] == "forward"), "{answer}");
    }
    for answer in both(&node, &["explain", "10.244.1.4", "10.96.0.80:80", "--output", "json"], 0) {
        let answer: Value = serde_json::from_str(&answer).expect("it is JSON");
        assert_eq!(answer["fate"], "forward", "a question by addresses has one answer, and no list");
    }
}

#[test]
fn what_is_not_found_is_explained() {
    let node = running();
    for (source, destination, message) in [
        ("10.244.1.4", "web", "write one of svc/default/web, svc/shop/web"),
        ("wbe-1", "web", "did you mean pod/default/web-1"),
        ("web-1", "svc/default/web:htpp", "did you mean http"),
        ("web-1", "svc/default/", "is neither an address nor a name"),
    ] {
        for answer in both(&node, &["explain", source, destination], 2) {
            assert!(answer.contains(message), "{source} {destination}: {answer}");
        }
    }
}

#[test]
fn a_refusal_names_what_to_look_at() {
    let node = running();
    for (destination, advice) in [
        ("svc/shop/web", "pod shop/shop-1 (10.244.2.2 on node-b) is not ready"),
        ("web:81", "10.96.0.80 has the ports 80/tcp (default/web:http), 9090/tcp (default/web:metrics)"),
    ] {
        for answer in both(&node, &["explain", "client-1", destination], 0) {
            assert!(answer.contains(advice), "{destination}: {answer}");
        }
    }
}
