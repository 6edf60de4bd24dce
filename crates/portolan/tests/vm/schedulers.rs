//! The behaviour of each scheduler with real connections, and changes of the scheduler.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_dataplane::ipvs::schedulers;
use portolan_model::{Balancing, Observation, Service};
use portolan_testkit::{LongConnection, Stream, topology};

use crate::lab;
use crate::poll::until;
use crate::world::{World, endpoint, service, socket, weights};

const ENDPOINTS: [&str; 3] = ["10.244.1.2", "10.244.2.2", "10.244.2.3"];
const WEB: &str = "10.96.0.10:80";

fn check(scheduler: &str, look: impl FnOnce(&World<'_>)) {
    let lab = lab();
    let mut world = World::new(&lab, scheduler);
    world.serve(&ENDPOINTS);
    world.put(service("web", "10.96.0.10", None), &ENDPOINTS);
    world.sync();
    assert!(world.shown(&["ipvsadm", "-ln"]).contains(&format!("TCP  {WEB} {scheduler}")));
    look(&world);
    world.remove("web");
    world.sync();
}

fn by(connection: &LongConnection) -> IpAddr {
    endpoint(connection.answer())
}

#[test]
fn rr_goes_round() {
    check("rr", |world| {
        let answers = world.answers(1..=9, WEB);
        let first: BTreeSet<IpAddr> = answers[..3].iter().copied().collect();
        assert_eq!(first.len(), 3, "{answers:?}");
        assert!(answers.chunks(3).all(|round| round == &answers[..3]), "{answers:?}");
    });
}

/// With one connection to each, the endpoint that loses its connection gets the next one, regardless of round-robin
/// order.
fn fewest_first(world: &World<'_>) {
    let mut open: Vec<LongConnection> = (1..=3).map(|client| world.open_from(client, WEB)).collect();
    assert_eq!(open.iter().map(by).collect::<BTreeSet<_>>().len(), 3, "each has one");
    for place in [1, 1, 2, 0, 0] {
        let closed = open.remove(place);
        let left = by(&closed);
        drop(closed);
        until("IPVS sees the end of the connection", || weights(world, WEB, &left.to_string()) == [(1, 0)]);
        let next = world.open_from(9, WEB);
        assert_eq!(by(&next), left, "the one with the fewest connections");
        open.insert(place, next);
    }
}

#[test]
fn lc_picks_the_one_with_the_fewest_connections() {
    check("lc", fewest_first);
}

#[test]
fn sed_picks_the_one_with_the_shortest_delay() {
    check("sed", fewest_first);
}

#[test]
fn nq_leaves_no_endpoint_idle() {
    check("nq", fewest_first);
}

#[test]
fn sh_keeps_a_client_with_its_endpoint() {
    check("sh", |world| {
        let (first, second) = (world.answers(1..=24, WEB), world.answers(1..=24, WEB));
        assert_eq!(first, second, "by the client's address alone");
        assert!(first.iter().collect::<BTreeSet<_>>().len() > 1, "different clients, different endpoints: {first:?}");
    });
}

#[test]
fn dh_keeps_a_destination_with_its_endpoint() {
    check("dh", |world| {
        let answers: BTreeSet<IpAddr> = world.answers(1..=24, WEB).into_iter().collect();
        assert_eq!(answers.len(), 1, "by the Service's address alone: {answers:?}");
    });
}

#[test]
fn a_service_changes_its_scheduler_without_losing_connections() {
    let lab = lab();
    let mut world = World::new(&lab, "rr");
    world.serve(&ENDPOINTS);
    world.put(service("web", "10.96.0.10", None), &ENDPOINTS);
    world.sync();
    let open: Vec<LongConnection> = (1..=6).map(|client| world.open_from(client, WEB)).collect();
    for scheduler in ["sh", "lc", "mh"] {
        let mut changed = service("web", "10.96.0.10", None);
        changed.scheduler = Some(Arc::from(scheduler));
        world.put(changed, &ENDPOINTS);
        world.sync();
        assert!(world.shown(&["ipvsadm", "-ln"]).contains(&format!("TCP  {WEB} {scheduler}")));
        assert!(open.iter().all(|connection| connection.exchange(b"still here").is_ok_and(|it| it == b"still here")));
    }
    world.remove("web");
    world.sync();
}

/// As in a trial after quarantine, again and again. A virtual server refuses new connections while the kernel replaces its
/// scheduler.
#[test]
fn weights_vary_without_failing_new_connections() {
    let lab = lab();
    let mut world = World::new(&lab, "rr");
    world.serve(&ENDPOINTS);
    let balancing = Balancing { quarantine: Some(true), ..Balancing::default() };
    world.put(Service { balancing: Some(balancing.into()), ..service("web", "10.96.0.10", None) }, &ENDPOINTS);
    world.sync();
    let from = ["pod-a3", "client"];
    let load = lab.load(&from.map(|from| Stream { from, to: socket(WEB) }), 100);
    let silent = Observation { silent: Some(0), ..Observation::USUAL };
    let trial = |warmth| Observation { warmth, ..Observation::USUAL };
    let observations = [silent, trial(10), trial(20), trial(40), Observation::USUAL];
    for observation in observations.iter().cycle().take(10 * observations.len()) {
        let before = load.opened();
        world.observe("web", ENDPOINTS[1], *observation);
        world.sync();
        until("new connections are made", || load.opened() > before + 4);
    }
    let tally = load.stop();
    println!("weights that vary: {} connections, {} failed", tally.connections, tally.failures.len());
    assert_eq!(tally.failures, Vec::<String>::new());
    world.remove("web");
    world.sync();
}

#[test]
fn the_error_for_a_missing_scheduler_lists_the_available_ones() {
    let lab = lab();
    let error = lab.host(topology::NODE).run(|| schedulers("guess")).unwrap_err().to_string();
    assert!(error.contains("\"guess\"") && error.contains("it offers dh, fo, lblc, lblcr, lc, mh, nq"), "{error}");
    let offered = lab.host(topology::NODE).run(|| schedulers("")).unwrap();
    assert!(["rr", "wrr", "lc", "wlc", "sed", "nq", "dh", "sh"].iter().all(|name| offered.contains(*name)));
}
