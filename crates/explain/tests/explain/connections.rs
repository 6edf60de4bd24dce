//! Open connections as a table, and what changed between two readings.

use std::time::Duration;

use portolan_dataplane::connections::{LeadsTo, OpenConnection, OpenConnections, Phase};
use portolan_explain::{ConnectionsAnswer, Style, connections_answer};
use portolan_kernel::nftables::Count;
use portolan_model::{Family, Protocol};
use portolan_plan::{Plan, PortKey};

use crate::world::cluster;

fn key(plan: &Plan) -> PortKey {
    let keys = plan.services.keys().filter(|key| key.family == Family::V4);
    keys.into_iter().find(|key| key.to_string() == "default/web:http").unwrap().clone()
}

fn open(plan: &Plan, client: u16, endpoint: &str, leads_to: LeadsTo) -> OpenConnection {
    OpenConnection {
        services: vec![key(plan)],
        protocol: Protocol::Tcp,
        client: format!("10.244.1.9:{client}").parse().unwrap(),
        frontend: Some("10.96.0.80:80".parse().unwrap()),
        endpoint: endpoint.parse().unwrap(),
        leads_to,
        phase: Phase::Open,
        is_masqueraded: false,
        age: Some(Duration::from_secs(18_125)),
        idle: None,
        from_client: Some(Count { packets: 1, bytes: 812 }),
        to_client: Some(Count { packets: 1, bytes: 20 << 20 }),
    }
}

fn answer(plan: &Plan, list: Vec<OpenConnection>) -> ConnectionsAnswer {
    let gone = list.iter().filter(|it| it.leads_to == LeadsTo::Gone).count();
    connections_answer(plan, &OpenConnections { total: list.len(), gone, list })
}

#[test]
fn connections_are_a_table_with_those_that_lead_nowhere_first() {
    let plan = cluster().plan();
    let list = vec![
        open(&plan, 1000, "10.244.1.2:8080", LeadsTo::InPool),
        open(&plan, 1001, "10.244.9.9:8080", LeadsTo::Gone),
        OpenConnection { services: Vec::new(), ..open(&plan, 1002, "10.244.9.9:80", LeadsTo::Gone) },
    ];
    let expected = "\
SERVICE           PROTOCOL  CLIENT                           ENDPOINT                         STATE       AGE    IDLE  SENT  RECEIVED
(gone)            tcp       10.244.1.9:1002 (shop/cart-1)    10.244.9.9:80                    open, gone  5h02m  -     812   20.0M
default/web:http  tcp       10.244.1.9:1001 (shop/cart-1)    10.244.9.9:8080                  open, gone  5h02m  -     812   20.0M
default/web:http  tcp       10.244.1.9:1000 (shop/cart-1)    10.244.1.2:8080 (default/web-1)  open        5h02m  -     812   20.0M
3 connections
2 lead to endpoints that are gone
";
    let text = answer(&plan, list).text(Style::PLAIN);
    let squeezed =
        |text: &str| text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>();
    assert_eq!(squeezed(&text), squeezed(expected), "{text}");
}

#[test]
fn what_the_node_does_not_record_is_noted() {
    let plan = cluster().plan();
    let bare = OpenConnection { age: None, from_client: None, ..open(&plan, 1, "10.244.1.2:8080", LeadsTo::InPool) };
    let text = answer(&plan, vec![bare]).text(Style::PLAIN);
    assert!(text.contains("note: no ages: net.netfilter.nf_conntrack_timestamp is 0"), "{text}");
    assert!(text.contains("note: no bytes: net.netfilter.nf_conntrack_acct is 0"), "{text}");
    assert_eq!(answer(&plan, Vec::new()).text(Style::PLAIN), "0 connections\n");
}

#[test]
fn changes_are_what_was_opened_and_what_has_ended() {
    let plan = cluster().plan();
    let connection = |client| open(&plan, client, "10.244.1.2:8080", LeadsTo::InPool);
    let before = answer(&plan, vec![connection(1), connection(2)]);
    // A connection that goes on carries more, and is the same.
    let older = OpenConnection { age: Some(Duration::from_secs(99_999)), ..connection(2) };
    let after = answer(&plan, vec![older, connection(3)]);
    let changes = after.changes_since(&before);
    let changed: Vec<(&str, &str)> = changes.iter().map(|it| (it.change, &*it.connection.client)).collect();
    assert_eq!(changed, [("closed", "10.244.1.9:1"), ("opened", "10.244.1.9:3")]);
}
