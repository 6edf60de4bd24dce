//! `--shadow` beside the real kube-proxy: two implementations read the same objects, and every difference is reported.

use std::process::{Command, Output};

use portolan_testkit::topology;
use serde_json::json;

use crate::cluster::Cluster;
use crate::objects::{WEB, WEB_IP, service, slice};
use crate::poll::until;
use crate::portolan::text;

/// Services of several kinds, so that there is something to compare.
fn create_services(cluster: &Cluster) {
    cluster.create_web(&["10.244.1.2", "10.244.2.2"]);
    let mut outside = service("outside", "10.96.0.81");
    outside["spec"]["type"] = json!("LoadBalancer");
    outside["spec"]["externalIPs"] = json!(["198.51.100.7"]);
    outside["spec"]["ports"][0]["nodePort"] = json!(30081);
    outside["status"] = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.10"}]}});
    cluster.create(&outside);
    cluster.control_plane.client().set_status(&outside).unwrap();
    cluster.create(&slice("outside", &["10.244.2.3"]));
    let mut local = service("local", "10.96.0.82");
    local["spec"]["type"] = json!("NodePort");
    local["spec"]["externalTrafficPolicy"] = json!("Local");
    local["spec"]["ports"][0]["nodePort"] = json!(30082);
    cluster.create(&local);
    cluster.create(&slice("local", &["10.244.1.3", "10.244.2.4"]));
    cluster.create(&service("empty", "10.96.0.83"));
    let mut sticky = service("sticky", "10.96.0.84");
    sticky["spec"]["sessionAffinity"] = json!("ClientIP");
    cluster.create(&sticky);
    cluster.create(&slice("sticky", &["10.244.1.2", "10.244.2.2"]));
}

fn compare_once(cluster: &Cluster) -> Output {
    let mut command: Command = cluster.portolan_command(&["--cluster-cidr", "10.244.0.0/16", "--shadow", "--once"]);
    command.args(["--healthz-bind-address", "127.0.0.1:20256", "--metrics-bind-address", "127.0.0.1:20249"]);
    cluster.run(command)
}

fn beside(mode: &str) {
    let cluster = Cluster::start();
    create_services(&cluster);
    let _kube_proxy = cluster.start_kube_proxy(mode);
    cluster.until_answer("pod-a3", WEB, "pod-a1");
    cluster.until_answer("client", "192.168.50.1:30081", "pod-b2");
    let mut last = None;
    until("nothing differs", || last.insert(compare_once(&cluster)).status.success());
    let tables = cluster.lab.host(topology::NODE).command(&["nft", "list", "tables"]).unwrap();
    assert!(!tables.contains("portolan"), "shadow mode programmed something: {tables}");

    cluster.lab.host(topology::NODE).command(&damage(mode)).unwrap();
    let output = compare_once(&cluster);
    assert!(!output.status.success() && text(&output).contains(WEB_IP), "{}", text(&output));
}

/// Deletes the Service `web` from kube-proxy's rules.
fn damage(mode: &str) -> Vec<&'static str> {
    match mode {
        "nftables" => vec!["nft", "delete element ip kube-proxy service-ips { 10.96.0.80 . tcp . 80 }"],
        _ => vec!["iptables", "-t", "nat", "-F", "KUBE-SERVICES"],
    }
}

#[test]
fn nothing_differs_from_nftables_mode() {
    beside("nftables");
}

#[test]
fn nothing_differs_from_iptables_mode() {
    beside("iptables");
}
