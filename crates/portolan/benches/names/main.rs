//! Portolan's DNS and CoreDNS in one run: same API server, same objects, same client, one after the other; part of
//! `make bench-peers`. Prints a table for docs/benchmarks.md.

mod contender;
mod load;
mod measure;
mod stage;

use contender::Contender;
use load::Question;
use stage::Stage;

/// Services with a ClusterIP, and headless ones with so many endpoints each.
pub(crate) const SERVICES: u32 = 10_000;
pub(crate) const HEADLESS: u32 = 200;
pub(crate) const ENDPOINTS: u32 = 50;

fn main() {
    let stage = Stage::build();
    println!(
        "| {SERVICES} Services, {} headless endpoints | question | answers/s, one core | per CPU second | p50 | p99 | RSS |",
        HEADLESS * ENDPOINTS
    );
    println!("|---|---|---|---|---|---|---|");
    for contender in Contender::ALL {
        let running = contender.start(&stage);
        for question in Question::ALL {
            let result = measure::run(&stage, &running, question);
            println!("| {} | {} | {result} |", contender.name(), question.name());
        }
        println!(
            "| {} | a new Service's name, after the API server's answer | {} |||||",
            contender.name(),
            measure::news(&stage)
        );
    }
}
