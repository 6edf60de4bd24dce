//! A burst of DNS questions from one pod through the ClusterIP of a Service with three endpoints, in nftables and in ebpf mode by
//! turns: questions that are lost, and races in connection tracking.
//!
//! `cargo bench -p portolan --bench scale -- burst questions=2000` sends fewer.

mod conntrack;
mod resolver;

use portolan_testkit::topology;

use crate::node::Node;
use crate::resolvers::{self, CLIENT};
use crate::{number_of, table};
use conntrack::Races;
use resolver::{Count, Socket};

/// Without hooks, and with them.
const MODES: [&str; 2] = ["nftables", "ebpf"];
const QUESTIONS: usize = 20_000;

/// What one kind of sockets meets in one mode.
struct Case {
    mode: &'static str,
    socket: Socket,
    count: Count,
    on_node: Races,
    in_pod: Races,
}

pub(crate) fn run() {
    let nodes = MODES.map(resolvers::start);
    resolvers::wait_for_hook(&nodes[1]).unwrap_or_else(|error| panic!("{error}"));
    let mut cases: Vec<(&Node, Case)> = Vec::new();
    for socket in [Socket::Connected, Socket::Unconnected] {
        cases.extend(nodes.iter().zip(MODES).map(|(node, mode)| (node, Case::new(mode, socket))));
    }
    let questions = number_of("questions", QUESTIONS);
    while cases.iter().any(|(_, case)| case.count.questions < questions) {
        cases.iter_mut().for_each(|(node, case)| case.ask(node));
    }
    show(cases.iter().map(|(_, case)| case));
}

impl Case {
    fn new(mode: &'static str, socket: Socket) -> Self {
        Self { mode, socket, count: Count::default(), on_node: Races::default(), in_pod: Races::default() }
    }

    fn ask(&mut self, node: &Node) {
        let (on_node, in_pod) = (node.lab.host(topology::NODE), node.lab.host(CLIENT));
        let before = (Races::read(on_node), Races::read(in_pod));
        in_pod.run(|| resolver::ask(self.socket, &mut self.count));
        self.on_node.add(&Races::read(on_node).since(&before.0));
        self.in_pod.add(&Races::read(in_pod).since(&before.1));
    }
}

fn show<'a>(cases: impl Iterator<Item = &'a Case>) {
    let row = |case: &Case| {
        let Case { mode, socket, count, on_node, in_pod } = case;
        let counts = [count.questions, count.lost, count.retransmissions, count.unanswered, count.split];
        let counts = counts.map(|it| it.to_string());
        let races = on_node.values().into_iter().zip(in_pod.values()).map(|(node, pod)| format!("{node} / {pod}"));
        [(*mode).into(), socket.name().into()].into_iter().chain(counts).chain(races).collect()
    };
    let rows: Vec<Vec<String>> = cases.map(row).collect();
    let heading = ["", "sockets", "questions", "lost", "retransmissions", "never answered", "split pairs"];
    table::print(
        "DNS questions of one pod, A and AAAA from the same socket at the same moment; counters of connection tracking, node / pod",
        &[&heading[..], &conntrack::NAMES].concat(),
        &rows,
    );
}
