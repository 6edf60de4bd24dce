//! Readings of a small node.

use portolan_explain::top::{Cursor, TopAnswer, TopEndpoint, TopRow, Totals};
use portolan_explain::{Cause, ChangeEntry};
use portolan_top::{Input, Reading, State};
use ratatui::crossterm::event::{KeyCode, KeyEvent};

pub(crate) fn row(service: &str, connections: u64, bytes: u64, open: u32, ready: (u32, u32)) -> TopRow {
    TopRow {
        service: service.into(),
        totals: Totals { connections, bytes_from_clients: bytes, bytes_to_clients: bytes * 3 },
        open: Some(open),
        ready: ready.0,
        endpoints: ready.1,
        ..TopRow::default()
    }
}

pub(crate) fn answer(reading: u64, at: u64, rows: Vec<TopRow>) -> TopAnswer {
    TopAnswer {
        cursor: Cursor { book: 1, reading },
        node: "node-a".into(),
        mode: "nftables".into(),
        is_whole: reading == 1,
        at,
        rows,
        ..TopAnswer::default()
    }
}

fn endpoint(address: &str, pod: &str, state: &str, share: f64, connections: u64) -> TopEndpoint {
    TopEndpoint {
        endpoint: address.into(),
        pod: Some(format!("default/{pod}")),
        node: Some("node-b".into()),
        zone: Some("zone-1".into()),
        state: state.into(),
        share,
        totals: Totals { connections, bytes_from_clients: connections * 500, bytes_to_clients: connections * 1500 },
        open: Some(7),
    }
}

pub(crate) fn endpoints(factor: u64) -> Vec<TopEndpoint> {
    vec![
        endpoint("10.244.1.2:8080", "web-1", "in the pool", 50.0, 60 * factor),
        endpoint("10.244.1.3:8080", "web-2", "not ready", 0.0, 0),
        endpoint("10.244.2.2:8080", "web-3", "in the pool", 50.0, 93 * factor),
    ]
}

pub(crate) fn take(state: &mut State, answer: TopAnswer) {
    state.update(Input::Reading(Box::new(Reading { answer, changes: Vec::new() })));
}

pub(crate) fn press(state: &mut State, codes: &[KeyCode]) {
    codes.iter().for_each(|code| _ = state.update(Input::Key(KeyEvent::from(*code))));
}

pub(crate) fn letters(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

/// Two readings, a second apart.
pub(crate) fn live() -> State {
    let mut state = State { height: 24, ..State::default() };
    let api = TopRow { refuses: Some("no-endpoints".into()), ..row("default/api", 0, 0, 0, (0, 2)) };
    let dns = TopRow { open: None, ..row("kube-system/kube-dns:dns/udp", 1000, 80_000, 0, (2, 2)) };
    let local = TopRow {
        refuses: Some("no-local-endpoints".into()),
        quarantined: 1,
        ..row("shop/a-service-with-quite-a-long-name:https-alternative", 5, 10, 3, (3, 3))
    };
    let whole = vec![api, dns.clone(), row("default/web:http", 100, 5000, 40, (2, 3)), local];
    let mut first = answer(1, 1000, whole);
    first.refusals = vec![("no-endpoints".into(), 10)];
    take(&mut state, first);
    let web = row("default/web:http", 253, 1_005_000, 42, (2, 3));
    let dns = TopRow { totals: Totals { connections: 1012, ..dns.totals }, ..dns };
    let mut second = answer(2, 2000, vec![web, dns]);
    second.refusals = vec![("no-endpoints".into(), 13)];
    let changes = vec![change(1), change(2)];
    state.update(Input::Reading(Box::new(Reading { answer: second, changes })));
    state
}

pub(crate) fn change(number: u64) -> ChangeEntry {
    ChangeEntry {
        number,
        unix_ms: 1_794_925_000_000 + number * 1000,
        latency_ms: Some(3.1),
        services: vec!["default/web".into()],
        causes: vec![Cause::new("EndpointSlice", "default/web-1", format!("endpoint 10.244.2.{number} was added"))],
        ..ChangeEntry::default()
    }
}
