//! Each row of the table that the program's own tests query with `dig`, queried without a server.

use portolan_dns::answer::Outcome;
use portolan_dns::wire::kind;

use super::support::{config, query, shown, zone_with};

const TABLE: &str = include_str!("specification.txt");

fn kind_of(name: &str) -> u16 {
    match name {
        "A" => kind::A,
        "AAAA" => kind::AAAA,
        "SRV" => kind::SRV,
        "TXT" => kind::TXT,
        "PTR" => kind::PTR,
        "CNAME" => kind::CNAME,
        "MX" => kind::MX,
        "NS" => kind::NS,
        "SOA" => kind::SOA,
        "AXFR" => kind::AXFR,
        "TYPE65" => 65,
        other => panic!("{other}"),
    }
}

#[test]
fn every_row_of_the_table_holds() {
    let zone = zone_with(config());
    let mut failures = Vec::new();
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for row in rows.map(|row| row.replace("ZONE", "cluster.local")) {
        let (queries, expected) = row.split_once(" | ").unwrap();
        let (name, kind) = queries.split_once(' ').unwrap();
        // The server refuses transfers before it looks at the zone.
        if kind == "AXFR" {
            continue;
        }
        let (outcome, reply) = query(&zone, name, kind_of(kind));
        if shown(&reply) != expected || matches!(outcome, Outcome::Forward) {
            failures.push(format!("{queries}\n  expected {expected}\n  answered {} ({outcome:?})", shown(&reply)));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}
