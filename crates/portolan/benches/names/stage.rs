//! The cluster whose names are queried.

use std::path::PathBuf;
use std::sync::Arc;

use portolan_testkit::cluster::{Client, ControlPlane, Identity, path_of};
use portolan_testkit::{Host, Lab, topology};
use serde_json::{Value, json};

use crate::{ENDPOINTS, HEADLESS, SERVICES};

const CREATED: &str = "2026-01-01T00:00:00Z";

pub(crate) struct Stage {
    lab: Arc<Lab>,
    control_plane: ControlPlane,
}

impl Stage {
    pub(crate) fn build() -> Self {
        let lab = Arc::new(Lab::new().expect("root is needed for the lab"));
        let control_plane = ControlPlane::start(&lab).expect("the control plane starts");
        let services = (0..SERVICES).map(|number| service(number, &json!(vip(number))));
        let headless = (0..HEADLESS).flat_map(|number| [service(SERVICES + number, &json!("None")), slice(number)]);
        let objects: Vec<Value> = services.chain(headless).collect();
        eprintln!("storing {} objects", objects.len());
        control_plane.store_all(&objects).expect("objects can be stored");
        let stage = Self { lab, control_plane };
        stage.client().get(&path_of(&slice(HEADLESS - 1))).expect("the API server serves what was stored");
        stage
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig(Identity::Admin)
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.control_plane.folder().into()
    }

    pub(crate) fn node(&self) -> &Host {
        self.lab.host(topology::NODE)
    }

    pub(crate) fn client(&self) -> &Client {
        self.control_plane.client()
    }
}

fn vip(number: u32) -> std::net::Ipv4Addr {
    (0x0a60_0100 + number).into()
}

/// Services after the last ClusterIP are headless: `h0`, `h1` and so on.
fn service(number: u32, cluster_ip: &Value) -> Value {
    let name = if number < SERVICES { format!("s{number}") } else { format!("h{}", number - SERVICES) };
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "uid": identifier(1, number), "creationTimestamp": CREATED},
        "spec": {
            "clusterIP": cluster_ip,
            "clusterIPs": [cluster_ip],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
            "sessionAffinity": "None",
            "type": "ClusterIP",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
        "status": {"loadBalancer": {}},
    })
}

fn slice(number: u32) -> Value {
    let endpoint = |index: u32| {
        let address: std::net::Ipv4Addr = (0x0b00_0000 + number * 256 + index).into();
        json!({"addresses": [address], "hostname": format!("h{number}-{index}"), "conditions": {"ready": true}})
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": format!("h{number}-a"),
            "namespace": "default",
            "uid": identifier(3, number),
            "creationTimestamp": CREATED,
            "generation": 1,
            "labels": {"kubernetes.io/service-name": format!("h{number}"), "service.kubernetes.io/headless": ""},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": (0..ENDPOINTS).map(endpoint).collect::<Vec<_>>(),
    })
}

fn identifier(kind: u32, number: u32) -> String {
    format!("{number:08x}-0000-4000-8000-{kind:012x}")
}
