//! What a node observes while the time of a scenario passes.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use portolan_balance::{Balancer, Seen, Sighting, Stage};
use portolan_model::{Balancing, Snapshot};
use portolan_testkit::{ConnectionLine, Step, topology};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct Story {
    balancer: Balancer,
    now: Duration,
}

impl Story {
    /// Adds what is observed at the end of the step. The connections are seen every second, as by the daemon.
    pub(crate) fn follow(&mut self, snapshot: &mut Snapshot, step: &Step) {
        self.balancer.follow(snapshot, &Balancing::default(), true, self.now);
        for _ in 0..step.passes.as_secs() {
            self.look(&step.connections);
            self.now += SECOND;
            self.balancer.advance(self.now);
        }
        self.look(&step.connections);
        snapshot.observed = self.balancer.observed().clone();
    }

    fn look(&mut self, connections: &[ConnectionLine]) {
        let Some(watched) = self.balancer.watched() else { return };
        let mut sighting = Sighting::of(watched);
        connections.iter().flat_map(seen).for_each(|seen| sighting.note(seen));
        self.balancer.note(sighting, self.now, is_inside);
    }
}

fn seen(line: &ConnectionLine) -> impl Iterator<Item = Seen> {
    let stage = match &*line.stage {
        "waiting" => Stage::Waiting,
        "answered" => Stage::Answered,
        _ => Stage::Established,
    };
    let client = |number: u16| SocketAddr::new(line.client, 1024 + number);
    (0..line.count).map(move |number| Seen { client: client(number), endpoint: line.endpoint, stage })
}

fn is_inside(client: IpAddr) -> bool {
    topology::by_address(client).is_some_and(|host| topology::is_on_node(host.name))
}
