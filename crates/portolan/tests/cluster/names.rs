//! DNS from a real API server, with the permissions of kube-proxy.

use portolan_testkit::topology;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{WEB_IP, endpoint, service, service_path, slice, slice_path};
use crate::poll::until;
use crate::portolan::TRAFFIC;

const DNS: &str = "169.254.20.10";

fn dig(cluster: &Cluster, words: &str) -> String {
    let server = format!("@{DNS}");
    let fixed = ["dig", &server, "+short", "+tries=1", "+time=5"];
    let words: Vec<&str> = fixed.into_iter().chain(words.split(' ')).collect();
    let printed = cluster.lab.host("pod-a3").command(&words).unwrap_or_else(|error| error.to_string());
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    lines.join(" ")
}

#[test]
fn names_follow_services_and_slices() {
    let cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2"]);
    let mut headless = service("db", "None");
    headless["spec"]["clusterIP"] = json!("None");
    cluster.create(&headless);
    let mut endpoints = slice("db", &["10.244.1.3", "10.244.2.3"]);
    endpoints["metadata"]["labels"]["service.kubernetes.io/headless"] = json!("");
    cluster.create(&endpoints);
    let arguments = [&TRAFFIC[..], &["--dns", DNS]].concat();
    let _daemon = cluster.start_program("portolan", cluster.portolan_command(&arguments));
    until("the name is answered", || dig(&cluster, "web.default.svc.cluster.local") == WEB_IP);
    assert_eq!(dig(&cluster, "db.default.svc.cluster.local"), "10.244.1.3 10.244.2.3");
    // The API server's own Service has a name, although these tests label it for another proxy.
    assert_eq!(dig(&cluster, "kubernetes.default.svc.cluster.local"), "10.96.0.1");
    assert_eq!(dig(&cluster, "-x 10.96.0.80"), "web.default.svc.cluster.local.");
    cluster.patch(&slice_path("db"), &json!({"endpoints": [endpoint("10.244.2.4")]}));
    until("the endpoints have changed", || dig(&cluster, "db.default.svc.cluster.local") == "10.244.2.4");
    cluster.delete(&service_path("web"));
    until("the name is gone", || dig(&cluster, "web.default.svc.cluster.local").is_empty());
    cluster.until_in_force();
    let output = cluster.lab.host(topology::NODE).command(&["nft", "list", "table", "ip", "portolan-dns"]).unwrap();
    assert!(output.contains("notrack"), "{output}");
}
