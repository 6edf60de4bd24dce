//! The cost of one change, for different numbers of Services.

use portolan_dataplane::Trust;
use std::time::{Duration, Instant};

use portolan_testkit::topology;

use crate::lab;
use crate::world::{World, service};

const CHANGES: usize = 20;
const MOST_REQUESTS: usize = 10;

fn address(number: usize) -> String {
    format!("10.96.{}.{}", number / 250, number % 250 + 1)
}

fn endpoints(number: usize, first: usize) -> [String; 3] {
    [0, 1, 2].map(|index| format!("10.244.{}.{}", 2 + (number % 100), 2 + first + index))
}

fn put(world: &mut World<'_>, number: usize, first: usize) {
    let endpoints = endpoints(number, first);
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    world.put(service(&format!("service-{number}"), &address(number), None), &endpoints);
}

/// The median time of a change that replaces one endpoint of one Service.
fn time_of_a_change(world: &mut World<'_>, services: usize) -> Duration {
    let mut times: Vec<Duration> = (0..CHANGES)
        .map(|change| {
            put(world, services / 2 + change, 1);
            let before = world.reconciler.kernel_mut().requests_sent();
            let time = timed_sync(world);
            let sent = world.reconciler.kernel_mut().requests_sent() - before;
            assert!(sent <= MOST_REQUESTS, "{sent} requests for one endpoint of one Service among {services}");
            println!("{services} Services, change {change}: {sent} requests, {time:?}");
            time
        })
        .collect();
    times.sort();
    times[CHANGES / 2]
}

fn timed_sync(world: &mut World<'_>) -> Duration {
    let plan = world.planned();
    let World { lab, reconciler, .. } = world;
    lab.host(topology::NODE).run(|| {
        let begin = Instant::now();
        reconciler.sync(&plan, Trust::Memory).expect("the kernel accepts it");
        begin.elapsed()
    })
}

#[test]
fn one_change_costs_the_same_for_any_number_of_services() {
    let lab = lab();
    let mut world = World::new(&lab, "rr");
    let mut times = Vec::new();
    for services in [200, 2_000] {
        (0..services).for_each(|number| put(&mut world, number, 0));
        println!("{services} Services × 3 programmed in {:?}", timed_sync(&mut world));
        times.push(time_of_a_change(&mut world, services));
    }
    println!("one endpoint replaced: {:?} at 200 Services, {:?} at 2,000", times[0], times[1]);
    world.clear();
    world.sync();
}
