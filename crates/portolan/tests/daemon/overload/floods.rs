//! More changes than any cluster makes.

use serde_json::Value;

use super::stage::Stage;
use super::{protobuf, world};
use crate::poll::until;

/// How much more memory the daemon may have after a flood than before it.
const MOST_MORE_MEMORY: usize = 64 << 20;
/// How often the events of a flood are sent, ten times a second.
const ROUNDS: usize = 30;

/// Services in the loop of creation and deletion: `OVERLOAD_SERVICES=100000` for the whole of it.
fn services_in_loop() -> usize {
    std::env::var("OVERLOAD_SERVICES").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

fn check_memory(stage: &Stage, name: &str, before: usize) {
    let after = stage.node.resident_bytes();
    println!("{name}: {} MB before, {} MB after", before >> 20, after >> 20);
    assert!(after < before + MOST_MORE_MEMORY, "{name}: {before} bytes before, {after} after");
}

/// Sends these events again and again. Another Service must be served meanwhile.
fn flood(stage: &Stage, objects: impl Iterator<Item = Value>) {
    let event = |mut object: Value| {
        object["metadata"]["resourceVersion"] = stage.server.world().version.to_string().into();
        protobuf::event("MODIFIED", &object)
    };
    let events: Vec<u8> = objects.flat_map(event).collect();
    stage.server.change(|world| world.flood = Some(events.into()));
    let address = "10.96.8.1";
    stage.server.change(|world| world.put(world::service("meanwhile", address)));
    stage.until_serving(address);
    until("the flood is sent", || stage.server.world().flooded >= ROUNDS);
    stage.server.change(|world| {
        world.flood = None;
        world.put(world::slice("meanwhile-a", "meanwhile", &["10.248.0.1"]));
    });
    until("what was sent by then is in force", || endpoints(stage, "10.248.0.1 ") == 1);
}

#[test]
fn ten_thousand_events_a_second_are_followed() {
    let stage = Stage::start();
    let slice = |number: u32, address: &str| world::slice(&format!("s{number}-a"), &format!("s{number}"), &[address]);
    stage.server.change(|world| {
        for number in 0..100 {
            world.put(world::service(&format!("s{number}"), &format!("10.96.1.{number}")));
            world.put(slice(number, "10.245.0.1"));
        }
    });
    until("all Services are served", || stage.count_served() == 101);
    let before = stage.node.resident_bytes();
    let addresses = (0..1_000).map(|number| (number, format!("10.246.{}.{}", number / 250, 1 + number % 250)));
    flood(&stage, addresses.map(|(number, address)| slice(number % 100, &address)));
    stage.server.change(|world| (0..100).for_each(|number| world.put(slice(number, "10.247.0.1"))));
    until("the last state is in force", || endpoints(&stage, "10.247.0.1 ") == 100);
    assert_eq!(endpoints(&stage, "10.246."), 0);
    check_memory(&stage, "10,000 events a second", before);
}

#[test]
fn a_service_of_5000_endpoints_flaps() {
    let stage = Stage::start();
    let slice = |number: u32, is_ready: bool| {
        let addresses: Vec<String> = (1..=100).map(|host| format!("10.245.{number}.{host}")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let mut slice = world::slice(&format!("web-{number}"), "web", &addresses);
        for endpoint in slice["endpoints"].as_array_mut().expect("a list") {
            endpoint["conditions"]["ready"] = is_ready.into();
        }
        slice
    };
    stage.server.change(|world| (0..50).for_each(|number| world.put(slice(number, true))));
    until("all endpoints are in force", || endpoints(&stage, "10.245.") == 5_000);
    let before = stage.node.resident_bytes();
    flood(&stage, [false, true].into_iter().flat_map(|is_ready| (0..50).map(move |number| slice(number, is_ready))));
    stage.server.change(|world| (0..50).for_each(|number| world.put(slice(number, number == 7))));
    until("the last state is in force", || endpoints(&stage, "10.245.") == 100);
    check_memory(&stage, "5,000 endpoints that flap ten times a second", before);
}

/// The endpoints in the kernel whose address begins so.
fn endpoints(stage: &Stage, prefix: &str) -> usize {
    stage.node.nft("list map ip portolan endpoints").matches(&format!(": {prefix}")).count()
}

#[test]
fn services_are_created_and_deleted_in_a_loop() {
    const BATCH: usize = 1_000;
    let stage = Stage::start();
    let name = |number: usize| format!("loop-{number}");
    let round = |first: usize| {
        for number in first..first + BATCH {
            let address = format!("10.96.{}.{}", 16 + number / 250 % 200, 1 + number % 250);
            stage.server.change(|world| world.put(world::service(&name(number), &address)));
        }
        until("some are served", || stage.count_served() > 1);
        stage.server.change(|world| {
            (first..first + BATCH).for_each(|number| world.delete(&format!("Service/{}", name(number))));
        });
        until("all are gone", || stage.count_served() == 1);
        stage.server.world().history.clear();
    };
    // The first rounds show what one batch needs.
    round(0);
    round(BATCH);
    let before = stage.node.resident_bytes();
    (2..services_in_loop() / BATCH).for_each(|batch| round(batch * BATCH));
    stage.add_and_follow(1);
    check_memory(&stage, &format!("{} Services in a loop", services_in_loop()), before);
}
