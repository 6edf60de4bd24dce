//! Whole stories: objects, connections and time go in, and what the plan reads comes out.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use portolan_balance::{Balancer, Seen, Sighting, Stage, Verdict};
use portolan_model::{
    Algorithm, Balancing, Family, Observation, Protocol, Service, ServiceName, Slice, SliceEndpoint, SlicePort, Slices,
    Snapshot,
};

const INSIDE: [u8; 4] = [10, 244, 1, 9];

fn name() -> ServiceName {
    ServiceName::new("default", "web")
}

fn address(number: u8) -> IpAddr {
    [10, 244, 2, number].into()
}

fn socket(number: u8) -> SocketAddr {
    SocketAddr::new(address(number), 8080)
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A Service with these endpoints.
fn facts(balancing: Balancing, endpoints: &[u8]) -> Snapshot {
    let endpoint = |number: &u8| SliceEndpoint::new(address(*number));
    let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    let endpoints = endpoints.iter().map(endpoint).collect();
    let slice = Slice { name: "web".into(), family: Family::V4, is_for_names_only: false, ports, endpoints };
    let service = Service { balancing: Some(Arc::new(balancing)), ..Service::empty(name()) };
    let mut snapshot = Snapshot::default();
    snapshot.services.insert(name(), Arc::new(service));
    snapshot.slices.insert(name(), Arc::new(Slices([Arc::new(slice)].into())));
    snapshot
}

struct Story {
    balancer: Balancer,
    now: Duration,
    port: u16,
    verdicts: Vec<Verdict>,
}

impl Story {
    fn of(snapshot: &Snapshot) -> Self {
        let mut story = Self { balancer: Balancer::default(), now: seconds(0), port: 1024, verdicts: Vec::new() };
        story.follow(snapshot);
        story
    }

    fn follow(&mut self, snapshot: &Snapshot) {
        self.balancer.follow(snapshot, &Balancing::default(), true, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.balancer.advance(self.now);
    }

    fn of_endpoint(&self, number: u8) -> Observation {
        let observed = self.balancer.observed().get(&name());
        observed.map_or(Observation::USUAL, |it| it.of(socket(number)))
    }

    /// Walks the connection table, and passes a second.
    fn see(&mut self, flows: &[Seen]) {
        let mut sighting = Sighting::of(self.balancer.watched().expect("a Service wants it"));
        flows.iter().for_each(|flow| sighting.note(*flow));
        let is_inside = |client: IpAddr| client == IpAddr::from(INSIDE);
        self.verdicts.extend(self.balancer.note(sighting, self.now, is_inside));
        self.pass(seconds(1));
    }

    /// New connections of a client.
    fn connect(&mut self, client: [u8; 4], endpoint: u8, stage: Stage, count: u16) -> Vec<Seen> {
        let ports = self.port..self.port + count;
        self.port += count;
        ports.map(|port| Seen { client: (client, port).into(), endpoint: socket(endpoint), stage }).collect()
    }

    fn is_quarantined(&self, endpoint: u8) -> bool {
        self.of_endpoint(endpoint).silent.is_some()
    }
}

#[test]
fn a_new_endpoint_warms_up_and_the_others_are_warm() {
    let balancing = Balancing { slow_start: Some(seconds(9)), ..Balancing::default() };
    let mut story = Story::of(&facts(balancing.clone(), &[1, 2]));
    assert_eq!(story.balancer.next(), None);
    story.pass(seconds(5));
    story.follow(&facts(balancing.clone(), &[1, 2, 3]));
    let mut warmth = Vec::new();
    while let Some(next) = story.balancer.next() {
        warmth.push(story.of_endpoint(3).warmth);
        story.pass(next - story.now);
    }
    assert_eq!(warmth, [100, 200, 300, 400, 500, 600, 700, 800, 900]);
    assert_eq!(
        (story.now, story.of_endpoint(3), story.of_endpoint(1)),
        (seconds(14), Observation::USUAL, Observation::USUAL)
    );
    // One that was gone is new again.
    story.follow(&facts(balancing.clone(), &[1, 3]));
    story.follow(&facts(balancing, &[1, 2, 3]));
    assert_eq!((story.of_endpoint(2).warmth, story.of_endpoint(3).warmth), (100, 1000));
}

#[test]
fn what_no_service_wants_is_not_observed() {
    let mut story = Story::of(&facts(Balancing::default(), &[1, 2]));
    story.follow(&facts(Balancing::default(), &[1, 2, 3]));
    assert!(story.balancer.watched().is_none() && story.balancer.next().is_none());
    assert!(story.balancer.observed().is_empty());
}

fn quarantine() -> Balancing {
    Balancing { quarantine: Some(true), ..Balancing::default() }
}

#[test]
fn an_endpoint_that_hangs_is_quarantined_within_two_walks_and_returns_after_it_answers() {
    let mut story = Story::of(&facts(quarantine(), &[1, 2, 3]));
    let mut flows = [1, 2, 3].map(|endpoint| story.connect(INSIDE, endpoint, Stage::Established, 5)).concat();
    story.see(&flows);
    flows.extend(story.connect(INSIDE, 1, Stage::Waiting, 3));
    story.see(&flows);
    assert!(!story.is_quarantined(1), "its connections are young");
    story.see(&flows);
    assert!(story.is_quarantined(1));
    assert_eq!(story.verdicts.pop().map(|verdict| verdict.quarantine), Some(Some(seconds(20))));
    // The clients of old connections repeat their SYNs, which says nothing about a trial.
    (0..21).for_each(|_| story.see(&flows));
    assert_eq!((story.is_quarantined(1), story.of_endpoint(1).warmth < 100), (false, true));
    flows.extend(story.connect(INSIDE, 1, Stage::Answered, 1));
    story.see(&flows);
    assert_eq!(story.of_endpoint(1), Observation::USUAL);
    assert_eq!(story.verdicts.pop().map(|verdict| verdict.quarantine), Some(None));
}

#[test]
fn an_endpoint_that_hangs_in_its_trial_is_quarantined_for_longer() {
    let mut story = Story::of(&facts(quarantine(), &[1, 2, 3]));
    let served = story.connect(INSIDE, 2, Stage::Established, 1);
    let mut flows = [served, story.connect(INSIDE, 1, Stage::Waiting, 3)].concat();
    (0..24).for_each(|_| story.see(&flows));
    assert!(!story.is_quarantined(1));
    flows.extend(story.connect(INSIDE, 1, Stage::Waiting, 1));
    (0..2).for_each(|_| story.see(&flows));
    assert_eq!(story.verdicts.pop().map(|verdict| verdict.quarantine), Some(Some(seconds(40))));
}

/// Half-open connections, clients that drop replies, forged addresses, a single host outside, and a client that a network
/// policy cuts off.
#[test]
fn clients_cannot_have_an_endpoint_quarantined() {
    let outside = [192, 0, 2, 1];
    let stories: [fn(&mut Story) -> Vec<Seen>; 4] = [
        |story| story.connect([192, 0, 2, 1], 1, Stage::Answered, 1000),
        |story| (0..200).flat_map(|host| story.connect([198, 51, 100, host], 1, Stage::Waiting, 5)).collect(),
        |story| story.connect([192, 0, 2, 1], 1, Stage::Waiting, 1000),
        |story| story.connect([10, 244, 1, 77], 1, Stage::Waiting, 1000),
    ];
    for (number, flows) in stories.iter().enumerate() {
        // With session affinity, its own endpoint is the one that has served a client.
        for (affinity, served_by) in [(None, 2), (Some(10_800), 2), (Some(10_800), 1)] {
            let mut story = Story::of(&with_affinity(affinity));
            let served = story.connect(outside, served_by, Stage::Established, 1);
            let flows = [served, flows(&mut story)].concat();
            (0..10).for_each(|_| story.see(&flows));
            assert!(!story.is_quarantined(1), "story {number}, affinity {affinity:?}");
        }
    }
}

/// Clients outside and inside that have connections, and whose new ones are lost on the way: the endpoint answers others.
#[test]
fn clients_with_session_affinity_cannot_have_an_endpoint_quarantined_that_answers_others() {
    let mut story = Story::of(&with_affinity(Some(10_800)));
    let clients = [[192, 0, 2, 1], [192, 0, 2, 2], [198, 51, 100, 1], INSIDE];
    let mut flows: Vec<Seen> = Vec::new();
    clients.iter().for_each(|client| flows.extend(story.connect(*client, 1, Stage::Established, 1)));
    story.see(&flows);
    clients.iter().for_each(|client| flows.extend(story.connect(*client, 1, Stage::Waiting, 100)));
    for _ in 0..10 {
        flows.extend(story.connect([10, 244, 1, 9], 1, Stage::Answered, 1));
        story.see(&flows);
        assert!(!story.is_quarantined(1));
    }
}

/// Three endpoints with quarantine.
fn with_affinity(seconds: Option<u32>) -> Snapshot {
    let mut snapshot = facts(quarantine(), &[1, 2, 3]);
    let mut service = (**snapshot.services.get(&name()).expect("there is a Service")).clone();
    service.affinity_seconds = seconds;
    snapshot.services.insert(name(), Arc::new(service));
    snapshot
}

/// A client with session affinity has connections to no other endpoint.
#[test]
fn clients_of_an_endpoint_that_hangs_count_with_session_affinity() {
    for affinity in [None, Some(10_800)] {
        let mut story = Story::of(&with_affinity(affinity));
        let mut flows = story.connect(INSIDE, 1, Stage::Closing, 1);
        story.see(&flows);
        flows.extend(story.connect(INSIDE, 1, Stage::Waiting, 3));
        (0..3).for_each(|_| story.see(&flows));
        assert_eq!(story.is_quarantined(1), affinity.is_some());
    }
}

/// A value of /proc/self/status, in bytes.
#[expect(clippy::disallowed_methods, reason = "the test reads files, the library does not")]
fn memory(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("it is listed");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") * 1024
}

/// Half of the connections wait for an answer, and half are established, each of another client. Without bounds they take
/// 120 MB.
#[test]
fn a_flood_of_connections_costs_bounded_memory() {
    const MOST: usize = 24 << 20;
    let mut story = Story::of(&facts(quarantine(), &[1, 2, 3]));
    let served = story.connect(INSIDE, 2, Stage::Established, 1);
    let waiting = story.connect(INSIDE, 3, Stage::Waiting, 3);
    story.see(&served);
    let before = memory("VmRSS:");
    for _ in 0..2 {
        let mut sighting = Sighting::of(story.balancer.watched().expect("a Service wants it"));
        served.iter().chain(&waiting).for_each(|flow| sighting.note(*flow));
        for number in 0..400_000_u32 {
            let stage = if number % 2 == 0 { Stage::Waiting } else { Stage::Established };
            let client = (std::net::Ipv4Addr::from(0x0b00_0000 + number), 1000).into();
            sighting.note(Seen { client, endpoint: socket(1 + (number / 2 % 2) as u8), stage });
        }
        story.balancer.note(sighting, story.now, |client| client == IpAddr::from(INSIDE));
        story.pass(seconds(1));
    }
    let grown = memory("VmHWM:").saturating_sub(before);
    println!("grown by {grown} bytes");
    assert!(grown < MOST, "{grown} bytes");
    assert!(story.is_quarantined(3), "a flood to others hides nothing");
}

#[test]
fn an_endpoint_that_answers_others_is_not_quarantined() {
    let mut story = Story::of(&facts(quarantine(), &[1, 2, 3]));
    let mut flows = story.connect(INSIDE, 2, Stage::Established, 1);
    for _ in 0..10 {
        flows.extend(story.connect(INSIDE, 1, Stage::Waiting, 100));
        flows.extend(story.connect(INSIDE, 1, Stage::Established, 1));
        story.see(&flows);
    }
    assert!(!story.is_quarantined(1));
}

/// A client outside can reset its own connections; a pod is trusted not to.
#[test]
fn an_endpoint_that_refuses_is_quarantined() {
    for (client, is_certain, is_quarantined) in
        [(INSIDE, false, true), ([192, 0, 2, 1], false, false), ([192, 0, 2, 1], true, false)]
    {
        let mut story = Story::of(&facts(quarantine(), &[1, 2, 3]));
        let served = story.connect(client, 2, Stage::Established, 1);
        story.see(&served);
        let mut sighting = Sighting::of(story.balancer.watched().expect("a Service wants it"));
        served.iter().for_each(|flow| sighting.note(*flow));
        (0..5).for_each(|port| sighting.note_refused((client, port).into(), socket(1), is_certain));
        story.balancer.note(sighting, story.now, |client| client == IpAddr::from(INSIDE));
        // The next walk finds out who serves the client.
        story.pass(seconds(1));
        story.see(&served);
        assert_eq!(story.is_quarantined(1), is_quarantined, "{client:?}, certain: {is_certain}");
    }
}

#[test]
fn if_nothing_answers_nothing_is_quarantined() {
    let mut story = Story::of(&facts(quarantine(), &[1, 2]));
    let flows = [story.connect(INSIDE, 1, Stage::Waiting, 50), story.connect(INSIDE, 2, Stage::Waiting, 50)].concat();
    (0..10).for_each(|_| story.see(&flows));
    assert!(!story.is_quarantined(1) && !story.is_quarantined(2));
}

#[test]
fn an_endpoint_with_more_connections_has_less_room() {
    let balancing = Balancing { algorithm: Some(Algorithm::LeastConnections), ..Balancing::default() };
    let mut story = Story::of(&facts(balancing, &[1, 2, 3]));
    let flows =
        [story.connect(INSIDE, 1, Stage::Established, 9), story.connect(INSIDE, 2, Stage::Established, 4)].concat();
    story.see(&flows);
    assert_eq!([1, 2, 3].map(|number| story.of_endpoint(number).room), [100, 200, 1000]);
    story.see(&[]);
    assert!(story.balancer.observed().is_empty());
}
