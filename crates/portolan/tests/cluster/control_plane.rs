//! The test environment itself: the lab's control plane behaves like that of a cluster, shown with the real kube-proxy.

use portolan_testkit::Stream;
use portolan_testkit::cluster::Identity;
use rustix::process::Signal;
use serde_json::json;

use crate::cluster::{Cluster, address};
use crate::objects::{WEB, WEB_IP, endpoint, service, slice_path};
use crate::poll::until;

/// If the real kube-proxy serves the lab's Services, the environment is realistic.
#[test]
fn kube_proxy_follows_the_api_server_through_kill_and_cut() {
    let mut cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2"]);
    let _kube_proxy = cluster.start_kube_proxy("nftables");
    cluster.until_answer("pod-a3", WEB, "pod-a1");

    cluster.control_plane.kill_api_server();
    assert_eq!(cluster.answer("pod-a3", WEB), "pod-a1");
    cluster.control_plane.start_api_server().unwrap();
    cluster.patch(&slice_path("web"), &json!({"endpoints": [endpoint("10.244.2.2")]}));
    cluster.until_answer("pod-a3", WEB, "pod-b1");

    cluster.control_plane.cut_off().unwrap();
    cluster.patch(&slice_path("web"), &json!({"endpoints": [endpoint("10.244.2.3")]}));
    assert_eq!(cluster.answer("pod-a3", WEB), "pod-b1", "a change crossed the cut");
    cluster.control_plane.reconnect().unwrap();
    cluster.until_answer("pod-a3", WEB, "pod-b2");
}

/// The real controllers make slices from Pods and their Service.
#[test]
fn the_controllers_make_slices_from_pods() {
    let mut cluster = Cluster::start();
    cluster.control_plane.start_controllers().unwrap();
    let mut web = service("web", WEB_IP);
    web["spec"]["selector"] = json!({"pod": "pod-b1"});
    cluster.create(&web);
    let slices =
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name=web";
    until("the slice names the pod", || {
        let list = cluster.control_plane.client().get(slices).unwrap();
        list["items"].to_string().contains("10.244.2.2")
    });
}

/// The server grants exactly what the role allows, so that a program that works with this identity needs no more.
#[test]
fn the_identity_of_kube_proxy_may_do_nothing_but_watch() {
    let cluster = Cluster::start();
    let proxy = cluster.control_plane.client_of(Identity::KubeProxy).unwrap();
    assert!(proxy.get("/api/v1/services").is_ok());
    assert!(proxy.get("/apis/discovery.k8s.io/v1/endpointslices").is_ok());
    for path in ["/api/v1/secrets", "/api/v1/pods", "/api/v1/namespaces/default/configmaps"] {
        let refused = proxy.get(path).unwrap_err().to_string();
        assert!(refused.contains("403"), "{path}: {refused}");
    }
    let unprivileged = cluster.control_plane.client_of(Identity::Unprivileged).unwrap();
    assert!(unprivileged.get("/api/v1/services").is_err());
}

/// Takeover tests expect from Portolan what kube-proxy does with its own rules: a restart breaks no connection.
#[test]
fn a_restart_of_kube_proxy_under_load_fails_nothing() {
    let cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2"]);
    let kube_proxy = cluster.start_kube_proxy("nftables");
    cluster.until_answer("pod-a3", WEB, "pod-a1");
    let load = cluster.lab.load(&[Stream { from: "pod-a3", to: address(WEB) }], 500);
    kube_proxy.end(Signal::KILL);
    let _kube_proxy = cluster.start_kube_proxy("nftables");
    cluster.patch(&slice_path("web"), &json!({"endpoints": [endpoint("10.244.1.3")]}));
    cluster.until_answer("pod-a3", WEB, "pod-a2");
    let tally = load.stop();
    assert!(tally.failures.is_empty() && tally.connections > 0, "{tally:?}");
}
