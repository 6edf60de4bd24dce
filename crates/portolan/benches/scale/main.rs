//! How the cost grows with the cluster, each size in the same run, printed as tables: `make bench`.
//!
//! Machines are noisy: compare ratios before seconds. `cargo bench -p portolan --bench scale -- soak` runs only one
//! part, and `NAME=NUMBER` changes one of its numbers.

mod burst;
mod change;
mod churn;
mod cluster;
mod hooks;
mod idle;
mod latency;
mod node;
mod resolvers;
mod rules;
mod soak;
mod start;
mod table;
mod traffic;

use std::process::ExitCode;

/// The sizes that are compared: Services, and endpoints of each.
const SIZES: [(u32, u32); 2] = [(10_000, 3), (50_000, 5)];

enum Part {
    Measures(fn()),
    /// Whether all is as it must be.
    Checks(fn() -> bool),
}

const PARTS: [(&str, Part); 10] = [
    ("start", Part::Measures(start::run)),
    ("rules", Part::Measures(rules::run)),
    ("change", Part::Measures(change::run)),
    ("latency", Part::Measures(latency::run)),
    ("hooks", Part::Measures(hooks::run)),
    ("idle", Part::Measures(idle::run)),
    ("traffic", Part::Measures(traffic::run)),
    ("soak", Part::Measures(soak::run)),
    ("burst", Part::Measures(burst::run)),
    ("churn", Part::Checks(churn::run)),
];

fn main() -> ExitCode {
    let is_name = |argument: &String| !argument.starts_with("--") && !argument.contains('=');
    let wanted: Vec<String> = std::env::args().skip(1).filter(is_name).collect();
    let mut has_failed = false;
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            has_failed |= !part.run();
        }
    }
    if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

impl Part {
    fn run(self) -> bool {
        match self {
            Self::Measures(run) => {
                run();
                true
            }
            Self::Checks(run) => run(),
        }
    }
}

/// An argument of the form `NAME=NUMBER`.
fn number_of(name: &str, default: usize) -> usize {
    let value = |argument: String| argument.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
    std::env::args().find_map(value).map_or(default, |text| text.parse().expect("NAME=NUMBER"))
}
