//! How the cost grows with the cluster, each size in the same run, printed as tables: `make bench`.
//!
//! Machines are noisy: compare ratios before seconds. `cargo bench -p portolan --bench scale -- soak` runs only one
//! part.

mod change;
mod cluster;
mod hooks;
mod latency;
mod rules;
mod soak;
mod start;
mod table;
mod traffic;

/// The sizes that are compared: Services, and endpoints of each.
const SIZES: [(u32, u32); 2] = [(10_000, 3), (50_000, 5)];

const PARTS: [(&str, fn()); 7] = [
    ("start", start::run),
    ("rules", rules::run),
    ("change", change::run),
    ("latency", latency::run),
    ("hooks", hooks::run),
    ("traffic", traffic::run),
    ("soak", soak::run),
];

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    for (name, run) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|it| it == name) {
            run();
        }
    }
}
