//! A Service by whose load balancers a test sees how far a proxy is.

use portolan_testkit::Error;
use portolan_testkit::cluster::Client;
use serde_json::{Value, json};

use super::outcome::vip;
use super::pair::Pair;

pub(crate) const ADDRESSES: [&str; 2] = ["10.96.88.8", "fd00:10:96::8888"];
const TARGETS: [&str; 2] = ["10.244.1.2", "fd00:10:244:1::2"];
const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FIRST_PORT: u16 = 10000;

/// Its port is the number of the round.
pub(crate) struct Marker {
    round: u16,
    /// An overlay has one family.
    families: usize,
}

impl Marker {
    pub(crate) fn create(client: &Client, families: usize) -> Result<Self, Error> {
        let marker = Self { round: FIRST_PORT, families };
        client.create(&service(marker.round))?;
        (0..2).try_for_each(|family| client.create(&slice(family, marker.round)).map(drop))?;
        Ok(marker)
    }

    /// Returns when everything that was written before is in force: proxies see the changes of Services in their order, and those of
    /// slices in theirs. The first round shows that a sync has begun that knows everything, the second one that it is over.
    pub(crate) fn settle(&mut self, pair: &mut Pair) {
        for _ in 0..2 {
            self.round += 1;
            self.write(pair.server.client()).expect("a change");
            let round = self.round;
            let is_there =
                |state: &Value, address| balancers(state).any(|it| vip(it) == address && has_ports(it, round));
            let addresses = &ADDRESSES[..self.families];
            pair.until(&format!("round {round}"), |state| addresses.iter().all(|address| is_there(state, *address)));
        }
    }

    fn write(&self, client: &Client) -> Result<(), Error> {
        client.replace(&service(self.round))?;
        (0..2).try_for_each(|family| client.replace(&slice(family, self.round)).map(drop))
    }
}

fn balancers(state: &Value) -> impl Iterator<Item = &Value> {
    state["balancers"].as_array().into_iter().flatten()
}

fn has_ports(balancer: &Value, round: u16) -> bool {
    let mapping = &balancer["PortMappings"][0];
    mapping["ExternalPort"] == round && mapping["InternalPort"] == round
}

fn service(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "marker", "namespace": "default"},
        "spec": {
            "clusterIP": ADDRESSES[0], "clusterIPs": ADDRESSES, "ipFamilies": FAMILIES, "ipFamilyPolicy": "RequireDualStack",
            "ports": [{"port": port, "targetPort": port}],
        },
    })
}

/// With an endpoint of this node, so that no remote endpoint is made.
fn slice(family: usize, port: u16) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("marker-{family}"), "namespace": "default", "labels": {"kubernetes.io/service-name": "marker"},
        },
        "addressType": FAMILIES[family], "ports": [{"name": "", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [TARGETS[family]], "nodeName": "node-a", "conditions": {"ready": true}}],
    })
}
