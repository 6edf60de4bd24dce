//! How long after a restart a change is programmed that was made while no proxy ran, for each proxy.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::contender::Contender;
use crate::measure::{SETTLE, START_WITHIN, memory_of, put_back, start, stop};
use crate::network::{percentile, wait_for};
use crate::stage::{Stage, fresh_address, vip};

const RESTARTS: u32 = 9;

/// Prints one line for each.
pub(crate) fn run(stage: &Stage, contenders: impl Iterator<Item = &'static Contender>) {
    println!("| Services | proxy | restarts | median | shortest | longest | memory |");
    println!("| ---: | --- | ---: | ---: | ---: | ---: | ---: |");
    for contender in contenders {
        let restarts = measure(stage, *contender);
        let times: Vec<Duration> = restarts.iter().map(|it| it.time).collect();
        let [median, shortest, longest] = [0.5, 0.0, 1.0].map(|share| percentile(&times, share).as_millis());
        let megabytes = restarts.iter().map(|it| it.memory).sum::<u64>() as f64 / f64::from(RESTARTS) / 1e6;
        let (size, name) = (format!("{} x {}", stage.services, stage.endpoints), contender.name());
        println!("| {size} | {name} | {RESTARTS} | {median} ms | {shortest} ms | {longest} ms | {megabytes:.1} MB |");
    }
}

struct Restart {
    /// From the start of the process until a client reaches the new endpoint.
    time: Duration,
    /// RSS when the process has settled.
    memory: u64,
}

fn measure(stage: &Stage, contender: Contender) -> Vec<Restart> {
    let mut program = start(stage, contender);
    let is_served = stage.client_host().run(|| wait_for(vip(stage.services - 1), START_WITHIN, |_| true));
    assert!(is_served.is_some(), "{} does not serve", contender.name());
    let mut restarts = Vec::new();
    for turn in 0..RESTARTS {
        let number = (turn * 7919 + 13) % stage.services;
        program.end(Signal::TERM);
        stage.set_endpoints(number, &[fresh_address(turn)]);
        std::thread::sleep(SETTLE);
        let begin = Instant::now();
        program = start(stage, contender);
        let time = served(stage, number, turn).expect("the change is programmed in time") - begin;
        std::thread::sleep(SETTLE);
        restarts.push(Restart { time, memory: memory_of(program.id(), "VmRSS:") });
        put_back(stage, number);
    }
    stop(stage, contender, program);
    restarts
}

/// When a client reaches the new endpoint.
fn served(stage: &Stage, number: u32, turn: u32) -> Option<Instant> {
    stage.client_host().run(|| wait_for(vip(number), START_WITHIN, |address| address == fresh_address(turn)))
}
