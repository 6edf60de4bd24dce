//! Traffic follows the objects of the API server.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::objects::{WEB, WEB_IP, endpoint, service, service_path, slice, slice_path};
use crate::poll::until;

#[test]
fn traffic_follows_services_and_slices() {
    let cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2"]);
    let _daemon = cluster.start_portolan();
    assert_eq!(cluster.answer("pod-a3", WEB), "pod-a1");

    cluster.patch(&slice_path("web"), &json!({"endpoints": [endpoint("10.244.2.2")]}));
    cluster.until_answer("pod-a3", WEB, "pod-b1");
    cluster.patch(&service_path("web"), &json!({"spec": {"ports": [{"port": 81, "targetPort": 8080}]}}));
    cluster.until_answer("pod-a3", "10.96.0.80:81", "pod-b1");
    cluster.until_answer("pod-a3", WEB, "refused");

    cluster.create(&service("other", "10.96.0.90"));
    cluster.until_answer("client", "10.96.0.90:80", "refused");
    cluster.create(&slice("other", &["10.244.2.3"]));
    cluster.until_answer("client", "10.96.0.90:80", "pod-b2");
    cluster.delete(&slice_path("other"));
    cluster.until_answer("client", "10.96.0.90:80", "refused");
    cluster.delete(&service_path("other"));
    cluster.delete(&service_path("web"));
    cluster.until_in_force();
}

/// Changes of the label that assigns a Service to another proxy are watched, too.
#[test]
fn a_service_is_given_to_another_proxy_and_back() {
    let cluster = Cluster::start();
    cluster.create_web(&["10.244.1.2"]);
    let _daemon = cluster.start_portolan();
    let label = |value: Value| json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": value}}});
    cluster.until_answer("pod-a3", WEB, "pod-a1");
    cluster.patch(&service_path("web"), &label("other".into()));
    cluster.until_in_force();
    assert_ne!(cluster.answer("pod-a3", WEB), "pod-a1");
    cluster.patch(&service_path("web"), &label(Value::Null));
    cluster.until_answer("pod-a3", WEB, "pod-a1");
}

/// The daemon has only the permissions of `system:node-proxier`, which include the Event about its start.
#[test]
fn the_start_is_reported_as_an_event() {
    let cluster = Cluster::start();
    let _daemon = cluster.start_portolan();
    until("there is an event about the start", || {
        let events = cluster.control_plane.client().get("/apis/events.k8s.io/v1/events").unwrap();
        let starts = |event: &Value| event["reason"] == "Starting" && event["regarding"]["name"] == "node-a";
        events["items"].as_array().unwrap().iter().any(starts)
    });
}

/// Slices from the real controllers, which follow the pods.
#[test]
fn traffic_follows_pods_through_the_controllers() {
    let mut cluster = Cluster::start();
    cluster.control_plane.start_controllers().unwrap();
    let _daemon = cluster.start_portolan();
    let mut web = service("web", WEB_IP);
    web["spec"]["selector"] = json!({"pod": "pod-b1"});
    cluster.create(&web);
    cluster.until_answer("pod-a3", WEB, "pod-b1");
    cluster.patch("/api/v1/namespaces/default/pods/pod-a1", &json!({"metadata": {"labels": {"pod": "pod-b1"}}}));
    cluster.delete("/api/v1/namespaces/default/pods/pod-b1?gracePeriodSeconds=0");
    cluster.until_answer("pod-a3", WEB, "pod-a1");
}
