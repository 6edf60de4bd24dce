//! The documentation has the differences to kube-proxy that the comparison under wine asserts.

use std::fmt::Write;

const LISTED: &str = include_str!("../windows/differences.txt");
const DOCUMENTATION: &str = include_str!("../../../../docs/kernelspace.md");

#[test]
fn differences_to_kube_proxy_are_documented() {
    let table = table();
    assert!(DOCUMENTATION.contains(&table), "docs/kernelspace.md must have this table:\n{table}");
}

/// One row for each reason, in the order of the list.
fn table() -> String {
    let mut rows: Vec<(String, Vec<&str>)> = Vec::new();
    for line in LISTED.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut parts = line.split('|').map(str::trim);
        let (scenario, kinds, reason) = (parts.next(), parts.next(), parts.next());
        let head = format!("{} | {}", reason.unwrap_or_default(), kinds.unwrap_or_default());
        let scenario = scenario.unwrap_or_default();
        match rows.iter_mut().find(|(known, _)| *known == head) {
            Some((_, scenarios)) => scenarios.push(scenario),
            None => rows.push((head, vec![scenario])),
        }
    }
    let mut table = "| reason | what differs in Portolan | scenarios |\n|---|---|---|\n".to_owned();
    for (head, scenarios) in rows {
        writeln!(table, "| {head} | {} |", scenarios.join(", ")).expect("text");
    }
    table
}
