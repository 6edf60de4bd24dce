//! Removed endpoints keep their connections and get no new ones.

use std::time::{Duration, Instant};

use portolan_testkit::{LongConnection, Stream, topology};

use crate::lab;
use crate::poll::until;
use crate::world::{World, endpoint, service, socket, weights};

const WEB: &str = "10.96.0.10:80";
const OLD: [&str; 3] = ["10.244.1.2", "10.244.2.2", "10.244.2.3"];
const NEW: [&str; 3] = ["10.244.1.3", "10.244.1.4", "10.244.2.4"];
const PER_SECOND: u32 = 40;

/// Each old endpoint is replaced by a new one, as in a rolling update, while connections are opened all the time.
#[test]
fn a_rolling_replacement_fails_no_connection() {
    let lab = lab();
    let mut world = World::new(&lab, "rr");
    world.serve(&OLD);
    world.serve(&NEW);
    world.put(service("web", "10.96.0.10", Some(30_080)), &OLD);
    world.sync();
    let lasting: Vec<LongConnection> = (1..=9).map(|client| world.open_from(client, WEB)).collect();
    let stream = |from, to: &str| Stream { from, to: socket(to) };
    let load = lab.load(&[stream("pod-a3", WEB), stream("client", "192.168.50.1:30080")], PER_SECOND);
    let mut serving: Vec<&str> = OLD.to_vec();
    for (place, new) in NEW.into_iter().enumerate() {
        let before = load.opened();
        serving[place] = new;
        world.put(service("web", "10.96.0.10", Some(30_080)), &serving);
        world.sync();
        let draining = weights(&world, WEB, OLD[place]);
        println!("{} leaves: weight and connections {draining:?}", OLD[place]);
        assert!(matches!(draining[..], [(0, 3..)]), "three of nine connections stay with {}", OLD[place]);
        until("new connections are made", || load.opened() > before + 20);
    }
    assert!(lasting.iter().all(|connection| connection.exchange(b"hello").is_ok_and(|it| it == b"hello")));
    let tally = load.stop();
    println!("rolling replacement: {} connections, {} failed", tally.connections, tally.failures.len());
    assert_eq!(tally.failures, Vec::<String>::new());
    assert!(world.answers(20..=28, WEB).iter().all(|it| NEW.contains(&it.to_string().as_str())));

    drop(lasting);
    // Closed connections stay in the table for a while; the timeout applies to them, too.
    let kernel = world.reconciler.kernel_mut();
    kernel.set_limits(Vec::new(), Some(Duration::from_secs(3600)));
    let left = lab.host(topology::NODE).run(|| kernel.reap(Instant::now() + Duration::from_secs(3601))).unwrap();
    assert_eq!(left, 0);
    assert!(OLD.iter().all(|address| weights(&world, WEB, address).is_empty()));
    world.remove("web");
    world.sync();
}

#[test]
fn an_idle_endpoint_is_removed_at_once_and_a_draining_one_can_return() {
    let lab = lab();
    let mut world = World::new(&lab, "rr");
    world.serve(&OLD);
    let web = || service("web", "10.96.0.10", None);
    world.put(web(), &OLD);
    world.sync();
    world.put(web(), &OLD[..2]);
    world.sync();
    assert!(weights(&world, WEB, OLD[2]).is_empty(), "it is idle");

    let open: Vec<LongConnection> = (1..=2).map(|client| world.open_from(client, WEB)).collect();
    let used = open.iter().find(|it| endpoint(it.answer()).to_string() == OLD[0]).expect("each has one");
    world.put(web(), &OLD[1..]);
    world.sync();
    assert_eq!(weights(&world, WEB, OLD[0]), [(0, 1)]);
    world.put(web(), &OLD);
    world.sync();
    assert_eq!(weights(&world, WEB, OLD[0]), [(1, 1)]);
    assert_eq!(used.exchange(b"hello").unwrap(), b"hello");
    let node = lab.host(topology::NODE);
    let kernel = world.reconciler.kernel_mut();
    assert_eq!(node.run(|| kernel.reap(Instant::now() + Duration::from_secs(86_400))).unwrap(), 0);
    assert_eq!(weights(&world, WEB, OLD[0]), [(1, 1)], "it has weight again");
    drop(open);
    world.remove("web");
    world.sync();
}
