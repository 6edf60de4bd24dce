//! Each row of the specification, and of CoreDNS's behaviour beyond it, queried with `dig`.

use super::server::{Server, cluster};

const TABLE: &str = include_str!("../../../../dns/tests/dns/names/specification.txt");
/// The number of rows, so that the loss of one fails.
const ROWS: usize = 64;

fn rows() -> Vec<String> {
    let rows = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|row| row.replace("ZONE", "cluster.local")).collect()
}

/// The output of `dig`, in the notation of the table.
fn shown(printed: &str) -> String {
    if printed.contains("; Transfer failed.") {
        return "REFUSED".to_owned();
    }
    let status = printed.split_once("status: ").and_then(|(_, rest)| rest.split(',').next()).unwrap_or("no answer");
    let mut records = section(printed, ";; ANSWER SECTION:");
    let additional = section(printed, ";; ADDITIONAL SECTION:");
    records.extend(additional.into_iter().map(|record| format!("+ {record}")));
    records.extend(
        section(printed, ";; AUTHORITY SECTION:").iter().filter(|it| it.contains(" SOA ")).map(|_| "soa".into()),
    );
    format!("{status} {}", records.join(" ; ")).trim().to_owned()
}

fn section(printed: &str, heading: &str) -> Vec<String> {
    let lines = printed.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.is_empty());
    let mut records: Vec<String> = lines.map(record).collect();
    records.sort();
    records
}

/// `OWNER TYPE DATA`, without the time to live and the class.
fn record(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    [&words[..1], &words[3..]].concat().join(" ")
}

fn query(server: &Server, arguments: &str, options: &[&str]) -> String {
    let words: Vec<&str> = arguments.split(' ').collect();
    shown(&server.dig(&[options, &words[..]].concat()))
}

fn failures(server: &Server, options: &[&str]) -> Vec<String> {
    let rows = rows();
    assert_eq!(rows.len(), ROWS, "rows");
    let answered = rows.iter().filter_map(|row| {
        let (arguments, expected) = row.split_once(" | ").expect("every row has both sides");
        let answered = query(server, arguments, options);
        (answered != expected).then(|| format!("{arguments}\n  expected {expected}\n  answered {answered}"))
    });
    answered.collect()
}

#[test]
fn every_row_holds_by_udp_and_by_tcp() {
    let server = Server::start(&cluster(), &["--upstream", "none"]);
    for options in [&[][..], &["+tcp"], &["+noedns", "+ignore"]] {
        let failures = failures(&server, options);
        // Without EDNS only the longest answer is truncated.
        let is_cut = |it: &String| options.contains(&"+noedns") && it.starts_with("_sql._tcp.db");
        let failures: Vec<String> = failures.into_iter().filter(|it| !is_cut(it)).collect();
        assert!(failures.is_empty(), "with {options:?}\n{}", failures.join("\n"));
    }
}

/// The examples of the Kubernetes documentation.
#[test]
fn the_examples_hold() {
    let server = Server::start(&cluster(), &["--upstream", "none"]);
    let srv = server.dig(&["+short", "_http._tcp.hello-service.default.svc.cluster.local", "SRV"]);
    assert_eq!(srv.trim(), "0 100 80 hello-service.default.svc.cluster.local.");
    assert_eq!(server.dig(&["+short", "search-engine.default.svc.cluster.local"]).trim(), "google.example.");
    let printed = server.dig(&["+short", "db.shop.svc.cluster.local"]);
    let mut addresses: Vec<&str> = printed.lines().collect();
    addresses.sort_unstable();
    assert_eq!(addresses, ["10.244.3.1", "10.244.3.2", "10.244.3.3"]);
}

#[test]
fn the_case_of_the_question_comes_back() {
    let server = Server::start(&cluster(), &["--upstream", "none"]);
    let printed = server.dig(&["+noall", "+answer", "Hello-SERVICE.default.svc.Cluster.Local"]);
    assert!(printed.starts_with("Hello-SERVICE.default.svc.Cluster.Local."), "{printed}");
}
