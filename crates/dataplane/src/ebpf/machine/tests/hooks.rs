//! The committed hooks over entries of the tests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use portolan_kernel::bpf::{Object, SOCKET_HOOKS};

use super::super::{Outcome, Step, World, run};
use super::Table;

const TCP: u32 = 6;
const UDP: u32 = 17;
const REFUSED: i32 = -111;

const NODE: u64 = 100;
const POD: u64 = 200;
const NOW: u64 = 1_000_000_000_000;

const CLUSTER: u8 = 0;
const LOCAL: u8 = 1;
const REJECT: u8 = 2;
const PASS: u8 = 3;

/// A node with Services, and the constants of the programs.
struct Node {
    table: Table,
    constants: Vec<(&'static str, u64)>,
    cookie: u64,
    cgroup: u64,
}

impl Node {
    /// 10.96.0.1:80 has three endpoints, and two of them locally.
    fn new() -> Self {
        let constants = vec![("host_cookie", NODE), ("retval", 1), ("udp_connect", 1)];
        let mut node = Self { table: Table::default(), constants, cookie: POD, cgroup: 5 };
        node.pool(1, &["10.244.0.1:8080", "10.244.0.2:8080", "10.244.0.3:8080"]);
        node.pool(2, &["10.244.0.1:8080", "10.244.0.2:8080"]);
        node.frontend(key("10.96.0.1:80", TCP as u8, 0), [CLUSTER, LOCAL], 0);
        node
    }

    fn pool(&mut self, pool: u64, endpoints: &[&str]) {
        for (slot, it) in (0u32..).zip(endpoints) {
            let key = [&pool.to_le_bytes()[..], &slot.to_le_bytes(), &[0; 4]].concat();
            self.table.add("endpoints", key, endpoint(it));
        }
    }

    /// A frontend of both pools.
    fn frontend(&mut self, key: Vec<u8>, routes: [u8; 2], affinity: u32) {
        let pools = [1u64.to_le_bytes(), 2u64.to_le_bytes()].concat();
        let counts = [3u32.to_le_bytes(), 2u32.to_le_bytes()].concat();
        let rest = [&7u64.to_le_bytes()[..], &affinity.to_le_bytes(), &routes, &[0; 74]].concat();
        self.table.add("frontends", key, [pools, counts, rest].concat());
    }

    /// A frontend with two slots of the cluster pool, and two of the local pool.
    fn frontend_with_slots(&mut self, key: Vec<u8>, slots: [&str; 4]) {
        let slots = slots.map(|it| it.parse::<SocketAddr>().unwrap());
        let mut value = [1u64.to_le_bytes(), 2u64.to_le_bytes()].concat();
        value.extend([2u32.to_le_bytes(), 2u32.to_le_bytes()].concat());
        value.extend([&7u64.to_le_bytes()[..], &[0; 4], &[CLUSTER, LOCAL, 1, 0]].concat());
        value.extend(slots.iter().flat_map(|it| it.port().to_be_bytes()));
        value.extend(slots.iter().flat_map(|it| address(it.ip())));
        self.table.add("frontends", key, value);
    }

    fn run(&self, program: &str, to: &str, protocol: u32) -> Vec<Outcome> {
        let object = Object::parse(SOCKET_HOOKS).unwrap();
        let rodata = object.rodata_with(&self.constants).unwrap();
        let (netns_cookie, cgroup) = (self.cookie, self.cgroup);
        let world = World { object: &object, maps: &self.table, rodata: &rodata, netns_cookie, cgroup, now: NOW };
        run(&world, object.program(program).unwrap(), &context(to, protocol)).unwrap()
    }

    /// The destinations after connect(2), each once.
    fn connect(&self, to: &str) -> Vec<String> {
        self.run("connect4", to, TCP).iter().map(fate).collect()
    }
}

fn address(it: IpAddr) -> [u8; 16] {
    match it {
        IpAddr::V4(it) => it.to_ipv6_mapped().octets(),
        IpAddr::V6(it) => it.octets(),
    }
}

fn key(frontend: &str, protocol: u8, scope: u8) -> Vec<u8> {
    let it: SocketAddr = frontend.parse().unwrap();
    let address = if scope == 0 { address(it.ip()) } else { [0; 16] };
    [&address[..], &it.port().to_be_bytes(), &[protocol, scope]].concat()
}

fn endpoint(it: &str) -> Vec<u8> {
    let it: SocketAddr = it.parse().unwrap();
    [&address(it.ip())[..], &it.port().to_be_bytes(), &[0; 6]].concat()
}

/// `struct bpf_sock_addr`.
fn context(to: &str, protocol: u32) -> Vec<u8> {
    let to: SocketAddr = to.parse().unwrap();
    let mut context = vec![0; 72];
    match to.ip() {
        IpAddr::V4(it) => context[4..8].copy_from_slice(&it.octets()),
        IpAddr::V6(it) => context[8..24].copy_from_slice(&it.octets()),
    }
    context[24..26].copy_from_slice(&to.port().to_be_bytes());
    context[36..40].copy_from_slice(&protocol.to_le_bytes());
    context
}

/// The destination of IPv4 after a hook, or the refusal.
fn fate(outcome: &Outcome) -> String {
    if outcome.returned == 0 {
        assert_eq!(outcome.retval, Some(REFUSED));
        return "refused".to_owned();
    }
    assert_eq!((outcome.returned, outcome.retval), (1, None));
    let octets: [u8; 4] = outcome.context[4..8].try_into().unwrap();
    let port = u16::from_be_bytes(outcome.context[24..26].try_into().unwrap());
    format!("{}:{port}", Ipv4Addr::from(octets))
}

#[test]
fn a_frontend_leads_to_each_endpoint_with_the_same_share() {
    let node = Node::new();
    let outcomes = node.run("connect4", "10.96.0.1:80", TCP);
    let fates: Vec<String> = outcomes.iter().map(fate).collect();
    assert_eq!(fates, ["10.244.0.1:8080", "10.244.0.2:8080", "10.244.0.3:8080"]);
    assert!(outcomes.iter().all(|it| (it.share - 1.0 / 3.0).abs() < 1e-9));
    let first = &outcomes[0].steps[0];
    assert!(
        matches!(first, Step::Found { map, key: found, .. } if map == "frontends" && *found == key("10.96.0.1:80", 6, 0))
    );
    assert_eq!(node.run("connect4", "10.96.0.1:80", 262).len(), 3, "MPTCP");
    assert_eq!(
        node.run("connect4", "10.96.0.1:80", 132).iter().map(fate).collect::<Vec<_>>(),
        ["10.96.0.1:80"],
        "SCTP"
    );
}

#[test]
fn pods_and_the_node_have_routes_of_their_own() {
    let mut node = Node::new();
    node.cookie = NODE;
    assert_eq!(node.connect("10.96.0.1:80"), ["10.244.0.1:8080", "10.244.0.2:8080"]);
    node.frontend(key("10.96.0.2:80", 6, 0), [REJECT, PASS], 0);
    assert_eq!(node.connect("10.96.0.2:80"), ["10.96.0.2:80"]);
    node.cookie = POD;
    assert_eq!(node.connect("10.96.0.2:80"), ["refused"]);
    node.constants.retain(|(name, _)| *name != "retval");
    assert_eq!(node.connect("10.96.0.2:80"), ["10.96.0.2:80"], "without bpf_set_retval");
    assert_eq!(node.connect("10.96.0.3:80"), ["10.96.0.3:80"], "no frontend");
}

#[test]
fn slots_in_the_frontend_need_no_other_entry() {
    let mut node = Node::new();
    node.table.0.retain(|(map, _), _| *map != "endpoints");
    let slots = ["10.244.0.1:1", "10.244.0.2:2", "10.244.0.3:3", "10.244.0.4:4"];
    node.frontend_with_slots(key("10.96.0.1:80", 6, 0), slots);
    assert_eq!(node.connect("10.96.0.1:80"), slots[..2]);
    node.cookie = NODE;
    assert_eq!(node.connect("10.96.0.1:80"), slots[2..]);
}

#[test]
fn a_node_port_is_on_every_address_of_the_node() {
    let mut node = Node::new();
    node.frontend(key("0.0.0.0:30080", 6, 1), [CLUSTER, CLUSTER], 0);
    node.table.add("own", address("192.0.2.1".parse().unwrap()).into(), 1u32.to_le_bytes().into());
    node.table.add("own", address("127.0.0.1".parse().unwrap()).into(), 2u32.to_le_bytes().into());
    assert_eq!(node.connect("192.0.2.1:30080").len(), 3);
    assert_eq!(node.connect("192.0.2.2:30080"), ["192.0.2.2:30080"]);
    assert_eq!(node.connect("127.0.0.1:30080"), ["127.0.0.1:30080"], "the loopback of a pod");
    node.cookie = NODE;
    assert_eq!(node.connect("127.0.0.1:30080").len(), 3);
}

#[test]
fn the_whole_address_comes_last() {
    let mut node = Node::new();
    node.frontend([&address("10.96.0.1".parse().unwrap())[..], &[0; 4]].concat(), [REJECT; 2], 0);
    assert_eq!(node.connect("10.96.0.1:81"), ["refused"]);
    assert_eq!(node.connect("10.96.0.1:80").len(), 3);
    let udp = |program| node.run(program, "10.96.0.1:9", UDP).iter().map(fate).collect::<Vec<_>>();
    assert_eq!(udp("connect4"), ["10.96.0.1:9"], "resolvers connect without sending");
    assert_eq!(udp("sendmsg4"), ["refused"]);
}

#[test]
fn a_client_with_affinity_has_its_endpoint() {
    let mut node = Node::new();
    node.frontend(key("10.96.0.1:80", 6, 0), [CLUSTER, LOCAL], 10);
    let client = [POD.to_le_bytes(), 7u64.to_le_bytes()].concat();
    assert_eq!(node.connect("10.96.0.1:80").len(), 3, "a new client");
    let seen =
        |seconds: u64| [endpoint("10.244.0.2:8080"), (NOW - seconds * 1_000_000_000).to_le_bytes().into()].concat();
    node.table.add("clients", client.clone(), seen(9));
    assert_eq!(node.connect("10.96.0.1:80").len(), 3, "not a member of the pool");
    node.table.add("members", [&1u64.to_le_bytes()[..], &endpoint("10.244.0.2:8080")].concat(), vec![1, 0, 0, 0]);
    assert_eq!(node.connect("10.96.0.1:80"), ["10.244.0.2:8080"]);
    node.table.add("clients", client, seen(10));
    assert_eq!(node.connect("10.96.0.1:80").len(), 3, "its time is over");
}

#[test]
fn a_mapped_address_is_one_of_ipv4() {
    let outcomes = Node::new().run("connect6", "[::ffff:10.96.0.1]:80", TCP);
    assert_eq!(outcomes.len(), 3);
    let expected = address("10.244.0.1".parse().unwrap());
    assert_eq!(outcomes[0].context[8..24], expected);
    assert_eq!(outcomes[0].context[24..26], 8080u16.to_be_bytes());
}

#[test]
fn some_tasks_are_passed_on() {
    let untouched = ["10.96.0.1:80"];
    let mut apart = Node::new();
    apart.table.add("namespaces", POD.to_le_bytes().into(), vec![2, 0, 0, 0]);
    assert_eq!(apart.connect("10.96.0.1:80"), untouched);

    let mut root = Node::new();
    root.constants.push(("pass_root", 1));
    assert_eq!(root.connect("10.96.0.1:80").len(), 3);
    root.cgroup = 1;
    assert_eq!(root.connect("10.96.0.1:80"), untouched);
}

#[test]
fn a_missing_slot_is_passed_on() {
    let mut node = Node::new();
    node.table.0.retain(|(map, _), _| *map != "endpoints");
    assert_eq!(node.connect("10.96.0.1:80"), vec!["10.96.0.1:80"; 3]);
}

#[test]
fn connected_sockets_of_udp_need_a_way_to_end_them() {
    let mut node = Node::new();
    node.frontend(key("10.96.0.1:53", UDP as u8, 0), [CLUSTER, LOCAL], 0);
    let fates = |node: &Node, program| node.run(program, "10.96.0.1:53", UDP).len();
    assert_eq!((fates(&node, "connect4"), fates(&node, "sendmsg4")), (1, 3));
    node.table.add("namespaces", POD.to_le_bytes().into(), vec![1, 0, 0, 0]);
    assert_eq!((fates(&node, "connect4"), fates(&node, "sendmsg4")), (3, 3));
    node.constants.retain(|(name, _)| *name != "udp_connect");
    assert_eq!((fates(&node, "connect4"), fates(&node, "sendmsg4")), (1, 3));
}

#[test]
fn replies_come_from_the_frontend() {
    let mut node = Node::new();
    let translation = |to: &str, from: &str| {
        let (to, from): (SocketAddr, SocketAddr) = (to.parse().unwrap(), from.parse().unwrap());
        let ports = [to.port().to_be_bytes(), from.port().to_be_bytes()].concat();
        [&address(to.ip())[..], &address(from.ip()), &ports, &[0; 4], &1u64.to_le_bytes(), &7u64.to_le_bytes()].concat()
    };
    let peer = |node: &Node, program| fate(&node.run(program, "10.244.0.1:53", UDP)[0]);
    assert_eq!(peer(&node, "getpeername4"), "10.244.0.1:53");
    let none = vec![0; 56];
    let exchange = translation("10.244.0.1:53", "10.96.0.1:53");
    node.table.add("exchanges", vec![], [&none[..], &none, &exchange, &none].concat());
    assert_eq!(peer(&node, "recvmsg4"), "10.96.0.1:53");
    assert_eq!(peer(&node, "getpeername4"), "10.244.0.1:53");
    node.table.add("connections", vec![], translation("10.244.0.1:53", "10.96.0.2:53"));
    assert_eq!((peer(&node, "recvmsg4"), peer(&node, "getpeername4")), ("10.96.0.2:53".into(), "10.96.0.2:53".into()));
}
