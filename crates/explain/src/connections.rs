//! Which connections of Services are open, and where do they lead?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use portolan_dataplane::connections::{LeadsTo, OpenConnection, OpenConnections, Phase};
use portolan_plan::{Plan, PortKey};
use serde::{Deserialize, Serialize};

use crate::printable::printable;
use crate::table::{Style, table};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ConnectionsAnswer {
    pub connections: Vec<ConnectionRow>,
    /// Also those that are not listed.
    pub total: usize,
    /// Those that lead to endpoints that are gone.
    pub gone: usize,
    /// What the node does not record.
    pub notes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionRow {
    /// None if the Service is gone; several if several have the endpoint, and the client has connected to it directly.
    pub services: Vec<String>,
    pub protocol: String,
    pub client: String,
    /// `namespace/name` of the Pod.
    pub client_pod: Option<String>,
    /// Where the client connects to.
    pub frontend: Option<String>,
    pub endpoint: String,
    pub endpoint_pod: Option<String>,
    /// `in the pool`, `draining` or `gone`.
    pub endpoint_state: String,
    /// `opening`, `open` or `closing`.
    pub state: String,
    pub masqueraded: bool,
    pub age_seconds: Option<u64>,
    pub idle_seconds: Option<u64>,
    pub bytes_from_client: Option<u64>,
    pub bytes_to_client: Option<u64>,
}

pub fn connections_answer(plan: &Plan, open: &OpenConnections) -> ConnectionsAnswer {
    let pods = pods(plan, &open.list);
    let mut connections: Vec<ConnectionRow> = open.list.iter().map(|it| ConnectionRow::new(it, &pods)).collect();
    connections.sort_by(|one, other| one.order().cmp(&other.order()));
    ConnectionsAnswer { connections, total: open.total, gone: open.gone, notes: notes(&open.list) }
}

/// The Pods that have the addresses of these connections.
fn pods(plan: &Plan, connections: &[OpenConnection]) -> HashMap<IpAddr, String> {
    let wanted: HashSet<IpAddr> = connections.iter().flat_map(|it| [it.client.ip(), it.endpoint.ip()]).collect();
    let mut pods = HashMap::new();
    for (service, slices) in &plan.facts().slices {
        for endpoint in slices.0.iter().flat_map(|slice| &slice.endpoints).filter(|it| wanted.contains(&it.address)) {
            let pod = endpoint.pod.as_ref().map(|pod| format!("{}/{pod}", service.namespace));
            pods.extend(pod.map(|pod| (endpoint.address, pod)));
        }
    }
    pods
}

fn notes(connections: &[OpenConnection]) -> Vec<String> {
    let lacks = |what: fn(&OpenConnection) -> bool| !connections.is_empty() && connections.iter().all(what);
    let age = lacks(|it| it.age.is_none()).then(|| "no ages: net.netfilter.nf_conntrack_timestamp is 0".to_owned());
    let bytes =
        lacks(|it| it.from_client.is_none()).then(|| "no bytes: net.netfilter.nf_conntrack_acct is 0".to_owned());
    age.into_iter().chain(bytes).collect()
}

impl ConnectionRow {
    pub(crate) fn of(plan: &Plan, connection: &OpenConnection) -> Self {
        Self::new(connection, &pods(plan, std::slice::from_ref(connection)))
    }

    fn new(open: &OpenConnection, pods: &HashMap<IpAddr, String>) -> Self {
        Self {
            services: open.services.iter().map(PortKey::to_string).collect(),
            protocol: open.protocol.to_string(),
            client: open.client.to_string(),
            client_pod: pods.get(&open.client.ip()).cloned(),
            frontend: open.frontend.map(|it| it.to_string()),
            endpoint: open.endpoint.to_string(),
            endpoint_pod: pods.get(&open.endpoint.ip()).cloned(),
            endpoint_state: endpoint_state(open.leads_to).into(),
            state: state(open.phase).into(),
            masqueraded: open.is_masqueraded,
            age_seconds: open.age.map(|it| it.as_secs()),
            idle_seconds: open.idle.map(|it| it.as_secs()),
            bytes_from_client: open.from_client.map(|it| it.bytes),
            bytes_to_client: open.to_client.map(|it| it.bytes),
        }
    }

    /// By Service; connections without an endpoint first.
    fn order(&self) -> (&[String], bool, &str, &str) {
        (&self.services, self.endpoint_state != endpoint_state(LeadsTo::Gone), &self.endpoint, &self.client)
    }

    /// What two readings know a connection by.
    pub fn identity(&self) -> (&str, &str, Option<&str>, &str) {
        (&self.protocol, &self.client, self.frontend.as_deref(), &self.endpoint)
    }

    fn cells(&self) -> Vec<String> {
        let named = |address: &str, pod: &Option<String>| match pod {
            Some(pod) => format!("{address} ({})", printable(pod)),
            None => address.to_owned(),
        };
        let services = self.services.iter().map(|it| printable(it).into_owned()).collect::<Vec<_>>();
        let lost = if self.endpoint_state == "in the pool" { "" } else { &self.endpoint_state };
        let bytes = |number: Option<u64>| number.map_or("-".into(), size);
        vec![
            if services.is_empty() { "(gone)".into() } else { services.join("\n") },
            self.protocol.clone(),
            named(&self.client, &self.client_pod),
            named(&self.endpoint, &self.endpoint_pod),
            [&*self.state, lost].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", "),
            self.age_seconds.map_or("-".into(), span),
            self.idle_seconds.map_or("-".into(), span),
            bytes(self.bytes_from_client),
            bytes(self.bytes_to_client),
        ]
    }

    /// In full, for one connection.
    pub(crate) fn lines(&self, style: Style) -> Vec<String> {
        let cells = self.cells();
        let service = cells[0].replace('\n', ", ");
        let source =
            if self.masqueraded { "sees an address of the node (masquerade)" } else { "sees the client's address" };
        let endpoint = format!("  endpoint  {}, {}, {source}", cells[3], self.endpoint_state);
        let is_gone = self.endpoint_state == endpoint_state(LeadsTo::Gone);
        vec![
            format!("  Service   {service}"),
            format!("  client    {}", cells[2]),
            if is_gone { style.red(&endpoint) } else { endpoint },
            format!("  state     {}, age {}, idle {}", self.state, cells[5], cells[6]),
            format!("  bytes     {} from the client, {} to it", cells[7], cells[8]),
        ]
    }

    /// In one line.
    pub fn line(&self) -> String {
        self.cells().iter().map(|cell| cell.replace('\n', ",")).collect::<Vec<_>>().join("  ")
    }
}

const HEADING: [&str; 9] = ["SERVICE", "PROTOCOL", "CLIENT", "ENDPOINT", "STATE", "AGE", "IDLE", "SENT", "RECEIVED"];

impl ConnectionsAnswer {
    pub fn text(&self, style: Style) -> String {
        let rows: Vec<Vec<String>> = self.connections.iter().map(ConnectionRow::cells).collect();
        let listing = if rows.is_empty() { String::new() } else { table(&HEADING, &rows, style) };
        let mut text = listing + &self.summary() + "\n";
        if self.gone > 0 {
            text += &(style.yellow(&format!("{} lead to endpoints that are gone", self.gone)) + "\n");
        }
        text + &self.notes.iter().map(|note| format!("note: {note}\n")).collect::<String>()
    }

    fn summary(&self) -> String {
        let omitted = self.total - self.connections.len().min(self.total);
        let connections = if self.total == 1 { "connection" } else { "connections" };
        match omitted {
            0 => format!("{} {connections}", self.total),
            more => format!("{} {connections}, {more} of them are not listed", self.total),
        }
    }

    /// What was opened and what ended since an earlier answer.
    pub fn changes_since<'a>(&'a self, before: &'a Self) -> Vec<ConnectionChange<'a>> {
        let keyed = |answer: &'a Self| answer.connections.iter().map(|row| (row.identity(), row)).collect();
        let (old, new): (BTreeMap<_, &ConnectionRow>, BTreeMap<_, &ConnectionRow>) = (keyed(before), keyed(self));
        let closed = old.iter().filter(|(key, _)| !new.contains_key(*key));
        let opened = new.iter().filter(|(key, _)| !old.contains_key(*key));
        let closed = closed.map(|(_, row)| ConnectionChange { change: "closed", connection: row });
        closed.chain(opened.map(|(_, row)| ConnectionChange { change: "opened", connection: row })).collect()
    }
}

/// A connection that was opened or has ended.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ConnectionChange<'a> {
    pub change: &'static str,
    pub connection: &'a ConnectionRow,
}

fn endpoint_state(leads_to: LeadsTo) -> &'static str {
    match leads_to {
        LeadsTo::InPool => "in the pool",
        LeadsTo::Draining => "draining",
        LeadsTo::Gone => "gone",
    }
}

fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Opening => "opening",
        Phase::Open => "open",
        Phase::Closing => "closing",
    }
}

/// `42s`, `3m12s`, `5h02m`, `3d04h`.
fn span(time: u64) -> String {
    match time {
        0..60 => format!("{time}s"),
        60..3_600 => format!("{}m{:02}s", time / 60, time % 60),
        3_600..86_400 => format!("{}h{:02}m", time / 3_600, time % 3_600 / 60),
        _ => format!("{}d{:02}h", time / 86_400, time % 86_400 / 3_600),
    }
}

/// `812`, `1.5K`, `20.0M`.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["K", "M", "G", "T", "P"];
    let mut number = bytes as f64 / 1024.0;
    let mut units = UNITS.iter();
    if bytes < 1024 {
        return bytes.to_string();
    }
    let mut unit = units.next().unwrap_or(&"");
    while number >= 1024.0 {
        let Some(next) = units.next() else { break };
        (number, unit) = (number / 1024.0, next);
    }
    format!("{number:.1}{unit}")
}
