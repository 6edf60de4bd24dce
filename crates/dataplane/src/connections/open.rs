//! Open connections of Services, one by one: those of connection tracking, and those that the daemon carries itself.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use portolan_kernel::conntrack::{Conntrack, TcpState, Tracked};
use portolan_kernel::nftables::Count;
use portolan_model::{Family, Protocol, ServiceName};
use portolan_plan::{Endpoint, Plan, PortKey, ServicePlan};

use super::load::direct_endpoints;
use super::rebalance::IdleClock;
use super::worker::idle_clock;
use crate::traffic::bytes;
use crate::{Error, Listener, Listeners};

/// A connection of TCP or SCTP, or a flow of UDP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenConnection {
    /// Several where a hook or the client itself has chosen an endpoint that several Services have; none if the Service is
    /// gone.
    pub services: Vec<PortKey>,
    pub protocol: Protocol,
    pub client: SocketAddr,
    /// Where the client connects to; unknown for a connection that the daemon carries.
    pub frontend: Option<SocketAddr>,
    pub endpoint: SocketAddr,
    pub leads_to: LeadsTo,
    pub phase: Phase,
    /// The endpoint sees an address of the node.
    pub is_masqueraded: bool,
    pub age: Option<Duration>,
    pub idle: Option<Duration>,
    pub from_client: Option<Count>,
    pub to_client: Option<Count>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeadsTo {
    /// An endpoint that the Service does not have, or a Service that is gone.
    Gone,
    /// An endpoint without new connections.
    Draining,
    InPool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Opening,
    Open,
    Closing,
}

/// Which connections, and how many of them.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub service: Option<ServiceName>,
    /// Of that Service; `None` is all of them.
    pub port: Option<String>,
    pub most: usize,
}

/// What one walk has found.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections {
    pub list: Vec<OpenConnection>,
    /// Also those beyond the limit.
    pub total: usize,
    pub gone: usize,
}

impl OpenConnections {
    /// `listeners` are those of a mode whose daemon carries connections.
    pub fn read(
        conntrack: &mut Conntrack,
        plan: &Plan,
        listeners: Option<&Listeners>,
        wanted: &Wanted,
    ) -> Result<Self, Error> {
        let reader = Reader::new(plan, idle_clock().ok(), SystemTime::now());
        let mut open = Self::default();
        for carried in listeners.map(|it| reader.carried(it, wanted.most)).transpose()?.into_iter().flatten() {
            open.add(carried, wanted);
        }
        for family in Family::BOTH {
            let found: Self = conntrack.tracked(family, |found: &mut Self, tracked| {
                reader.connection(tracked).into_iter().for_each(|connection| found.add(connection, wanted));
            })?;
            open.append(found, wanted.most);
        }
        Ok(open)
    }

    /// The connection between a client and a server, if it is open.
    pub fn find(
        conntrack: &mut Conntrack,
        plan: &Plan,
        listeners: Option<&Listeners>,
        (protocol, client, server): (Protocol, SocketAddr, SocketAddr),
    ) -> Result<Option<OpenConnection>, Error> {
        let reader = Reader::new(plan, idle_clock().ok(), SystemTime::now());
        let carried = listeners.map(|listeners| reader.carried(listeners, usize::MAX)).transpose()?;
        let is_meant =
            |it: &OpenConnection| it.protocol == protocol && it.client == client && reader.serves(it, server);
        if let Some(found) = carried.into_iter().flatten().find(is_meant) {
            return Ok(Some(OpenConnection { frontend: Some(server), ..found }));
        }
        let tracked = conntrack.find_tracked(protocol.number(), client, server)?;
        Ok(tracked.and_then(|tracked| reader.connection(&tracked)))
    }

    fn add(&mut self, connection: OpenConnection, wanted: &Wanted) {
        if !wanted.includes(&connection) {
            return;
        }
        self.total += 1;
        self.gone += usize::from(connection.leads_to == LeadsTo::Gone);
        if self.list.len() < wanted.most {
            self.list.push(connection);
        }
    }

    fn append(&mut self, mut other: Self, most: usize) {
        (self.total, self.gone) = (self.total + other.total, self.gone + other.gone);
        self.list.append(&mut other.list);
        self.list.truncate(most);
    }
}

impl Wanted {
    fn includes(&self, connection: &OpenConnection) -> bool {
        let is_service = |key: &PortKey| self.service.as_ref().is_none_or(|service| key.name.service == *service);
        let is_port = |key: &PortKey| self.port.as_ref().is_none_or(|port| *key.name.port == **port);
        let is_any = self.service.is_none() && self.port.is_none();
        is_any || connection.services.iter().any(|key| is_service(key) && is_port(key))
    }
}

/// From entries to connections of Services.
struct Reader<'a> {
    plan: &'a Plan,
    direct: HashMap<SocketAddr, Vec<&'a PortKey>>,
    /// `None` where the node has no timeouts of connection tracking.
    clock: Option<IdleClock>,
    now: SystemTime,
}

impl<'a> Reader<'a> {
    fn new(plan: &'a Plan, clock: Option<IdleClock>, now: SystemTime) -> Self {
        // What the relay connects to is listed by the relay, with its clients.
        let direct = if plan.node.limits.relayed { HashMap::new() } else { direct_endpoints(plan) };
        Self { plan, direct, clock, now }
    }

    /// `None` for an entry that is no connection of a Service, or has ended.
    fn connection(&self, tracked: &Tracked) -> Option<OpenConnection> {
        let flow = &tracked.flow;
        let protocol = Protocol::from_number(flow.protocol).filter(|_| !tracked.is_closed())?;
        let (frontend, endpoint) = (flow.original_destination, flow.reply_source);
        let services = match frontend == endpoint {
            true => self.direct.get(&endpoint)?.iter().map(|key| (*key).clone()).collect(),
            false => self.translated(protocol, frontend, endpoint)?,
        };
        Some(OpenConnection {
            leads_to: self.leads_to(&services, endpoint),
            services,
            protocol,
            client: flow.original_source,
            frontend: Some(frontend),
            endpoint,
            phase: phase(tracked),
            is_masqueraded: flow.reply_destination.ip() != flow.original_source.ip(),
            age: tracked.started.and_then(|started| self.now.duration_since(started).ok()),
            idle: tracked.tcp.zip(self.clock.as_ref()).and_then(|(tcp, clock)| clock.idle(&tcp)),
            from_client: tracked.sent,
            to_client: tracked.received,
        })
    }

    /// The Service of a frontend; none where it is gone, and `None` where the address was never one of a Service.
    fn translated(&self, protocol: Protocol, frontend: SocketAddr, endpoint: SocketAddr) -> Option<Vec<PortKey>> {
        if self.plan.node.limits.relayed && self.plan.node.owns(endpoint.ip()) {
            return None;
        }
        if let Some(claim) = self.plan.holder(frontend.ip(), frontend.port(), protocol) {
            return Some(vec![claim.holder]);
        }
        let ranges = &self.plan.node.family(Family::of(frontend.ip())).service_ranges;
        ranges.iter().any(|range| range.contains(&frontend.ip())).then(Vec::new)
    }

    fn leads_to(&self, services: &[PortKey], endpoint: SocketAddr) -> LeadsTo {
        let ports = services.iter().filter_map(|key| self.plan.services.get(key));
        ports.map(|port| leads_to(port, endpoint)).max().unwrap_or(LeadsTo::Gone)
    }

    fn carried(&self, listeners: &Listeners, most: usize) -> Result<Vec<OpenConnection>, Error> {
        let ports: HashMap<(Family, String), &PortKey> =
            self.plan.services.keys().map(|port| ((port.family, Listener::name_of_port(port)), port)).collect();
        let connection = |(listener, carried): (Listener, portolan_relay::Carried)| {
            let key = ports.get(&(listener.family, listener.port_name().to_owned()));
            let services: Vec<PortKey> = key.map(|key| (*key).clone()).into_iter().collect();
            OpenConnection {
                leads_to: self.leads_to(&services, carried.endpoint),
                services,
                protocol: listener.protocol,
                client: carried.client,
                frontend: None,
                endpoint: carried.endpoint,
                phase: Phase::Open,
                is_masqueraded: true,
                age: Some(carried.age),
                idle: Some(carried.idle),
                from_client: Some(bytes(carried.bytes_from_client)),
                to_client: Some(bytes(carried.bytes_to_client)),
            }
        };
        Ok(listeners.connections(most)?.into_iter().map(connection).collect())
    }

    /// Whether a connection that the daemon carries may be one to this server.
    fn serves(&self, connection: &OpenConnection, server: SocketAddr) -> bool {
        let claim = self.plan.holder(server.ip(), server.port(), connection.protocol);
        connection.endpoint == server || claim.is_some_and(|claim| connection.services.contains(&claim.holder))
    }
}

fn leads_to(port: &ServicePlan, endpoint: SocketAddr) -> LeadsTo {
    let has = |endpoints: &[Endpoint]| endpoints.iter().any(|it| it.socket() == endpoint);
    if has(&port.cluster) || has(&port.local) {
        return LeadsTo::InPool;
    }
    if has(&port.draining) { LeadsTo::Draining } else { LeadsTo::Gone }
}

fn phase(tracked: &Tracked) -> Phase {
    match tracked.tcp.map(|tcp| tcp.state) {
        Some(TcpState::Opening | TcpState::Answered) => Phase::Opening,
        Some(TcpState::Closing | TcpState::Closed) => Phase::Closing,
        None if !tracked.is_replied => Phase::Opening,
        _ => Phase::Open,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use portolan_kernel::conntrack::Flow;
    use portolan_model::{Service, ServicePort, Slice, SliceEndpoint, SlicePort, Slices, Snapshot};
    use portolan_plan::{Limits, PlanConfig, plan};

    use super::*;

    const NOW: Duration = Duration::from_secs(1_000_000);

    /// The Service `default/web` at 10.96.0.80:80, with the endpoint 10.244.1.2:8080.
    fn planned(limits: Limits) -> Plan {
        let service = Service {
            cluster_ips: ["10.96.0.80".parse().unwrap()].into(),
            ports: [ServicePort { name: "".into(), protocol: Protocol::Tcp, port: 80, node_port: None }].into(),
            ..Service::empty(ServiceName::new("default", "web"))
        };
        let endpoint = SliceEndpoint::new("10.244.1.2".parse().unwrap());
        let ports = [SlicePort { name: "".into(), protocol: Protocol::Tcp, port: 8080 }].into();
        let endpoints = [endpoint].into();
        let slice = Slice { name: "web".into(), family: Family::V4, is_for_names_only: false, ports, endpoints };
        let ranges = ["10.96.0.0/16".parse().unwrap()].into();
        let mut snapshot = Snapshot { service_ranges: ranges, ..Snapshot::default() };
        snapshot.slices.insert(service.name.clone(), Arc::new(Slices([Arc::new(slice)].into())));
        snapshot.services.insert(service.name.clone(), Arc::new(service));
        plan(&snapshot, &Plan::default(), &PlanConfig { limits, ..PlanConfig::default() })
    }

    fn tracked(frontend: &str, endpoint: &str) -> Tracked {
        let client = "10.244.1.4:1000".parse().unwrap();
        let flow = Flow {
            protocol: 6,
            original_source: client,
            original_destination: frontend.parse().unwrap(),
            reply_source: endpoint.parse().unwrap(),
            reply_destination: client,
        };
        let started = SystemTime::UNIX_EPOCH + NOW - Duration::from_secs(60);
        let (sent, received) = (Some(bytes(1)), Some(bytes(2)));
        Tracked { flow, is_replied: true, timeout_left: NOW, tcp: None, sent, received, started: Some(started) }
    }

    fn read(plan: &Plan, frontend: &str, endpoint: &str) -> Option<OpenConnection> {
        let reader = Reader::new(plan, None, SystemTime::UNIX_EPOCH + NOW);
        reader.connection(&tracked(frontend, endpoint))
    }

    #[test]
    fn an_entry_belongs_to_the_service_of_its_frontend() {
        let plan = planned(Limits::default());
        let found = read(&plan, "10.96.0.80:80", "10.244.1.2:8080").unwrap();
        assert_eq!(found.services.iter().map(ToString::to_string).collect::<Vec<_>>(), ["default/web"]);
        assert_eq!((found.leads_to, found.age), (LeadsTo::InPool, Some(Duration::from_secs(60))));
        assert_eq!(read(&plan, "10.96.0.80:80", "10.244.1.9:8080").unwrap().leads_to, LeadsTo::Gone);
        let orphan = read(&plan, "10.96.7.7:80", "10.244.1.2:8080").unwrap();
        assert_eq!((orphan.leads_to, orphan.services.len()), (LeadsTo::Gone, 0), "its Service is gone");
        assert_eq!(read(&plan, "192.0.2.1:80", "10.244.1.2:8080"), None, "the translation of another program");
        assert_eq!(read(&plan, "10.244.1.2:8080", "10.244.1.2:8080"), None, "no Service is concerned");
    }

    #[test]
    fn a_connection_that_a_hook_translates_belongs_to_the_services_of_its_endpoint() {
        let plan = planned(Limits { at_connect: true, ..Limits::default() });
        let found = read(&plan, "10.244.1.2:8080", "10.244.1.2:8080").unwrap();
        assert_eq!((found.services.len(), found.leads_to), (1, LeadsTo::InPool));
        assert_eq!(read(&plan, "10.244.1.9:8080", "10.244.1.9:8080"), None);
    }

    #[test]
    fn no_more_are_kept_than_asked_for() {
        let plan = planned(Limits::default());
        let connection = read(&plan, "10.96.0.80:80", "10.244.1.9:8080").unwrap();
        let wanted = |service: Option<&str>, most| {
            let service = service.map(|name| ServiceName::new("default", name));
            Wanted { service, port: None, most }
        };
        let mut open = OpenConnections::default();
        (0..5).for_each(|_| open.add(connection.clone(), &wanted(Some("web"), 2)));
        assert_eq!((open.list.len(), open.total, open.gone), (2, 5, 5));
        open.add(connection, &wanted(Some("other"), 2));
        assert_eq!(open.total, 5, "of another Service");
    }
}
