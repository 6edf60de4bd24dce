//! How many calls one change costs, beside kube-proxy. `make bench-windows` runs this, and no other target does.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use portolan_testkit::cluster::{Client, Identity};
use serde_json::{Value, json};

use crate::compare::pair::{KUBE_PROXY, Pair, Place, Side};
use crate::publish::Publisher;

const SIZES: [u32; 2] = [100, 1000];
/// Endpoints of a Service, all of them on other nodes.
const ENDPOINTS: u32 = 3;
/// No sync but those that a change causes.
const FLAGS: &[&str] = &["--iptables-sync-period=1h"];
const NEW_ENDPOINT: &str = "10.245.0.1";

/// The calls by what they do, without those that open and close handles.
#[derive(Debug, Default, PartialEq, Eq)]
struct Calls {
    changes: usize,
    /// Contents of single objects.
    questions: usize,
    /// Not known for Portolan, whose watch lists identities four times a second.
    lists: Option<usize>,
}

#[test]
fn calls_for_one_endpoint_change() {
    println!("| Services | proxy | created, modified, deleted | objects read | lists |\n|---|---|---|---|---|");
    for services in SIZES {
        let calls = measured(services);
        for (proxy, Calls { changes, questions, lists }) in &calls {
            let lists = lists.map_or("not counted".to_owned(), |it| it.to_string());
            println!("| {services} | {proxy} | {changes} | {questions} | {lists} |");
        }
        let ours = &calls["portolan.exe"];
        assert!(ours.changes <= 4 && ours.questions == 0, "{services} Services: {ours:?}");
    }
}

fn measured(services: u32) -> BTreeMap<&'static str, Calls> {
    let place = Place { network: json!({"Type": "L2Bridge"}), flags: FLAGS, families: 2 };
    let mut pair = Pair::new(&place, &["10.244.1.2".to_owned(), "fd00:10:244:1::2".to_owned()]);
    let client = pair.server.client_of(Identity::Admin).expect("a client");
    Publisher::new(&client).publish("").expect("the Node");
    create(&client, services);
    // One for the ClusterIP and one for the node port.
    pair.until("everything is programmed", |state| {
        state["balancers"].as_array().is_some_and(|it| it.len() == 2 * services as usize)
    });
    [&pair.kube_proxy, &pair.portolan].iter().for_each(|side| drop(side.machine.take_calls()));
    let [old, rest @ ..] = addresses(services / 2);
    let mut changed = slice(services / 2);
    changed["endpoints"] = [NEW_ENDPOINT.to_owned()].iter().chain(&rest).map(|it| endpoint(it)).collect();
    client.replace(&changed).expect("a change");
    pair.until("the endpoint is replaced", |state| has_endpoint(state, NEW_ENDPOINT) && !has_endpoint(state, &old));
    [&pair.kube_proxy, &pair.portolan].map(|side| (side.name, calls_of(side))).into()
}

fn create(client: &Client, services: u32) {
    let objects: Vec<Value> = (0..services).flat_map(|number| [service(number), slice(number)]).collect();
    client.create_all(&objects).expect("new objects");
}

fn has_endpoint(state: &Value, address: &str) -> bool {
    let list = state["endpoints"].as_array().into_iter().flatten();
    list.into_iter().any(|it| it["IpConfigurations"][0]["IpAddress"] == address)
}

fn calls_of(side: &Side) -> Calls {
    let calls = side.machine.take_calls();
    let count = |words: &[&str]| calls.iter().filter(|call| words.iter().any(|word| call.contains(word))).count();
    Calls {
        changes: count(&["Create", "Modify", "Delete"]),
        questions: count(&["Query", "HNSCall"]),
        lists: (side.name == KUBE_PROXY).then(|| count(&["Enumerate"])),
    }
}

fn service(number: u32) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("web-{number}"), "namespace": "default"},
        "spec": {
            "type": "NodePort", "clusterIP": Ipv4Addr::from(0x0a60_1000 + number),
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30000 + number}],
        },
    })
}

fn addresses(number: u32) -> [String; ENDPOINTS as usize] {
    std::array::from_fn(|index| {
        let index = u32::try_from(index).expect("a small number");
        Ipv4Addr::from(0x0af4_8000 + number * ENDPOINTS + index).to_string()
    })
}

fn slice(number: u32) -> Value {
    let name = format!("web-{number}");
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": addresses(number).iter().map(|it| endpoint(it)).collect::<Vec<_>>(),
    })
}

fn endpoint(address: &str) -> Value {
    json!({"addresses": [address], "nodeName": "node-b", "conditions": {"ready": true}})
}
