//! Questions by name, where the names come from a real API server and its controllers.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{WEB_IP, service};
use crate::poll::until;

fn asked(cluster: &Cluster, words: &[&str]) -> (Option<i32>, String) {
    let output = cluster.query(words);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// The controller names the Pods in its slices, and the Node that is not watched is looked up with kube-proxy's rights.
#[test]
fn pods_nodes_and_services_are_known_by_name() {
    let mut cluster = Cluster::start();
    cluster.control_plane.start_controllers().unwrap();
    let mut web: Value = service("web", WEB_IP);
    web["spec"]["type"] = "NodePort".into();
    web["spec"]["selector"] = json!({"pod": "pod-a1"});
    web["spec"]["ports"][0]["nodePort"] = 30080.into();
    cluster.create(&web);
    let _daemon = cluster.start_portolan();
    cluster.until_answer("pod-a3", "10.96.0.80:80", "pod-a1");
    until("the Pod is known by name", || asked(&cluster, &["explain", "pod/default/pod-a1", "svc/web"]).0 == Some(0));
    let (_, text) = asked(&cluster, &["explain", "pod-a1", "web.default"]);
    assert!(text.contains("10.244.1.2 -> 10.96.0.80:80/tcp") && text.contains("pod default/pod-a1"), "{text}");
    let (status, text) = asked(&cluster, &["explain", "node-b", "nodeport/web"]);
    assert_eq!(status, Some(0), "{text}");
    assert!(text.contains("192.168.50.2 -> 192.168.50.1:30080/tcp"), "{text}");
    let (status, text) = asked(&cluster, &["explain", "node-x", "nodeport/web"]);
    assert!(status == Some(2) && text.contains("did you mean node/node-a"), "{text}");
    // A proxy does not watch Pods.
    let (status, text) = asked(&cluster, &["explain", "some-client", "web"]);
    assert!(status == Some(2) && text.contains("write the address of another pod"), "{text}");
}
