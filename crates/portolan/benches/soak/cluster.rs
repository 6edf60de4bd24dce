//! A real API server with all Services, and the daemon of the node.

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use portolan_testkit::cluster::path_of;
use serde_json::{Value, json};

use crate::daemon::Daemon;
use crate::endpoints::{Endpoints, IN_USE};
use crate::server;
use crate::stage::{Stage, address, endpoint, service, slice};

pub(crate) const SERVICES: u32 = 2_000;
/// Of them, the last ones are UDP.
const UDP_SERVICES: u32 = 20;

pub(crate) struct Cluster {
    /// Only one thread at a time writes to the API server or stops it.
    stage: Mutex<Stage>,
    pub(crate) endpoints: Endpoints,
    pub(crate) daemon: Daemon,
}

pub(crate) fn tcp_services() -> Range<u32> {
    0..SERVICES - UDP_SERVICES
}

pub(crate) fn udp_services() -> Range<u32> {
    SERVICES - UDP_SERVICES..SERVICES
}

impl Cluster {
    pub(crate) fn build() -> Self {
        let mut stage = Stage::build(server::serve);
        stage.grow(tcp_services().end, IN_USE);
        let objects: Vec<Value> = udp_services().flat_map(udp_objects).collect();
        stage.control_plane.store_all(&objects).expect("objects can be stored");
        let daemon = Daemon::start(&stage);
        Self { stage: Mutex::new(stage), endpoints: Endpoints::default(), daemon }
    }

    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().expect("no thread panics with it")
    }

    /// Replaces one endpoint of a Service.
    pub(crate) fn churn(&self, number: u32) {
        let addresses: Vec<Ipv4Addr> = self.endpoints.move_on(number);
        let patch = json!({"endpoints": addresses.into_iter().map(endpoint).collect::<Vec<_>>()});
        let path = path_of(&slice(number, 0));
        self.stage().control_plane.client().patch(&path, &patch).expect("the slice can be changed");
    }
}

fn udp_objects(number: u32) -> [Value; 3] {
    let (mut service, mut slice) = (service(number), slice(number, IN_USE));
    service["spec"]["ports"][0]["protocol"] = json!("UDP");
    slice["ports"][0]["protocol"] = json!("UDP");
    [address(number), service, slice]
}
