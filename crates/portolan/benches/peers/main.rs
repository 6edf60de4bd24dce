//! Portolan and kube-proxy in one run: same API server, same lab, same objects, one after the other: `make bench-peers`.
//!
//! Writes a table and a plot into docs/benchmarks.md. After `--`, `quick` runs only the smallest size, a number of
//! Services only that size, and the name of a contender only that one; with any of these, nothing is written. `hang` measures
//! what happens while an endpoint hangs, and nothing else; `vanish` when clients of a pod that is cut off are served again; `restart`,
//! with a number of Services, when a change that was made while no proxy ran is in force after a start.

mod contender;
mod hang;
mod measure;
mod network;
mod plot;
mod report;
mod restart;
mod stage;
mod vanish;

use contender::Contender;
use measure::Result;
use stage::Stage;

/// Services, endpoints of each, and the programs that are measured at that size.
const ROUNDS: [(u32, u32, &[Contender]); 4] = [
    (1_000, 3, &Contender::ALL),
    (5_000, 3, &[Contender::portolan("iptables"), Contender::kube_proxy("iptables")]),
    (10_000, 3, &Contender::ALL),
    (50_000, 5, &[Contender::portolan("nftables"), Contender::portolan("ebpf")]),
];

fn main() {
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    let rounds = if has("quick") { &ROUNDS[..1] } else { &ROUNDS[..] };
    let named = Contender::ALL.iter().any(|it| has(&it.name()));
    let sized = ROUNDS.iter().any(|(services, ..)| has(&services.to_string()));
    let serve = if has("vanish") { network::serve_and_hold } else { network::serve_all_addresses };
    let mut stage = Stage::build(serve);
    if has("hang") {
        stage.grow(10, 3);
        return hang::run(&stage);
    }
    if has("vanish") {
        stage.grow(10, 3);
        return vanish::run(&stage);
    }
    let is_chosen = |contender: &&Contender| !named || has(&contender.name());
    let chosen_rounds = rounds.iter().filter(|it| !sized || has(&it.0.to_string()));
    if has("restart") {
        return chosen_rounds.for_each(|(services, endpoints, contenders)| {
            stage.grow(*services, *endpoints);
            restart::run(&stage, contenders.iter().filter(is_chosen));
        });
    }
    let mut results: Vec<Result> = Vec::new();
    for (services, endpoints, contenders) in chosen_rounds {
        stage.grow(*services, *endpoints);
        for contender in contenders.iter().filter(is_chosen) {
            eprintln!("{services} Services x {endpoints}: {}", contender.name());
            results.push(measure::run(&stage, *contender));
            eprintln!("  {}", report::line(results.last().expect("one was just added")));
        }
    }
    print!("{}", report::table(&results));
    if rounds.len() == ROUNDS.len() && !named && !sized {
        report::write(&results);
    }
}
