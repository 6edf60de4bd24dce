//! Health check node ports, by which load balancers learn which nodes serve a Service.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use http::{HeaderValue, StatusCode};
use portolan_model::{Family, OrdMap, ServiceName};
use portolan_plan::{HealthCheck, NodePlan, NodePortMatch, Plan};
use tokio::runtime::Handle;

use crate::health::Health;
use crate::healthz::JSON;
use crate::server::{Answer, Handler, Serving, answer, pages};
use crate::system::listen;

const WEIGHT: &str = "x-load-balancing-endpoint-weight";

/// A health check port that could not be opened. It is retried with every sync.
#[derive(Debug)]
pub struct HealthCheckFailure {
    pub service: ServiceName,
    pub address: SocketAddr,
    pub error: io::Error,
}

impl fmt::Display for HealthCheckFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, address, error } = self;
        write!(formatter, "opening health check port {address} of Service {service}: {error}")
    }
}

/// The Service and the number of endpoints that a port reports. A port that another Service takes over stays open.
type Subject = (ServiceName, usize);

pub(crate) struct HealthCheckPorts {
    health: Health,
    handle: Handle,
    open: BTreeMap<SocketAddr, OpenPort>,
    /// The plan behind the open ports; `None` if some of them could not be opened.
    followed: Option<Followed>,
}

struct OpenPort {
    subject: Arc<Mutex<Subject>>,
    _serving: Serving,
}

impl HealthCheckPorts {
    pub(crate) fn new(health: Health, handle: Handle) -> Self {
        Self { health, handle, open: BTreeMap::new(), followed: None }
    }

    /// Opens and closes ports to match the plan, and returns the failures.
    pub(crate) fn follow(&mut self, plan: &Plan) -> Vec<HealthCheckFailure> {
        if self.followed.as_ref().is_some_and(|followed| followed.is_same(plan)) {
            return Vec::new();
        }
        let failures = self.open_and_close(wanted(plan));
        self.followed = failures.is_empty().then(|| Followed::new(plan));
        failures
    }

    /// The next plan opens them again.
    pub(crate) fn close(&mut self) {
        self.open.clear();
        self.followed = None;
    }

    fn open_and_close(&mut self, wanted: BTreeMap<SocketAddr, Subject>) -> Vec<HealthCheckFailure> {
        self.open.retain(|address, _| wanted.contains_key(address));
        let mut failures = Vec::new();
        for (address, subject) in wanted {
            if let Some(open) = self.open.get(&address) {
                *open.subject.lock().expect("the lock is not poisoned") = subject;
                continue;
            }
            let service = subject.0.clone();
            match self.open(address, subject) {
                Ok(port) => _ = self.open.insert(address, port),
                Err(error) => failures.push(HealthCheckFailure { service, address, error }),
            }
        }
        failures
    }

    pub(crate) fn count(&self, family: Family) -> usize {
        self.open.keys().filter(|address| Family::of(address.ip()) == family).count()
    }

    fn open(&self, address: SocketAddr, subject: Subject) -> io::Result<OpenPort> {
        let subject = Arc::new(Mutex::new(subject));
        let listener = listen::open(address)?;
        let handler = handler(self.health.clone(), subject.clone());
        let _serving = Serving::start(listener, pages(handler), &self.handle)?;
        Ok(OpenPort { subject, _serving })
    }
}

/// The part of a plan that decides about ports.
struct Followed {
    checks: OrdMap<(ServiceName, Family), HealthCheck>,
    node: Arc<NodePlan>,
}

impl Followed {
    fn new(plan: &Plan) -> Self {
        Self { checks: plan.health_checks.clone(), node: plan.node.clone() }
    }

    /// Nearly every change concerns something else, and costs next to nothing here.
    fn is_same(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.node, &plan.node) && self.checks.diff(&plan.health_checks).next().is_none()
    }
}

/// The ports to hold open. The API server allocates each number once; of two Services with the same number, the first
/// name wins.
fn wanted(plan: &Plan) -> BTreeMap<SocketAddr, Subject> {
    let mut wanted = BTreeMap::new();
    for ((service, family), HealthCheck { port, local_endpoints }) in &plan.health_checks {
        for address in addresses(&plan.node, *family) {
            wanted.entry(SocketAddr::new(address, *port)).or_insert_with(|| (service.clone(), *local_endpoints));
        }
    }
    wanted
}

/// The addresses that serve node ports.
fn addresses(node: &NodePlan, family: Family) -> Vec<IpAddr> {
    match &node.family(family).node_ports {
        NodePortMatch::Only(addresses) => addresses.to_vec(),
        NodePortMatch::AnyLocal if family == Family::V4 => vec![Ipv4Addr::UNSPECIFIED.into()],
        NodePortMatch::AnyLocal => vec![Ipv6Addr::UNSPECIFIED.into()],
    }
}

/// Any path and method is accepted, as in kube-proxy. The removal of the node is not considered here.
fn handler(health: Health, subject: Arc<Mutex<Subject>>) -> Handler {
    Arc::new(move |_| {
        let (service, local_endpoints) = subject.lock().expect("the lock is not poisoned").clone();
        let answer = respond(&service, local_endpoints, health.is_healthy());
        Box::pin(std::future::ready(answer))
    })
}

fn respond(service: &ServiceName, local_endpoints: usize, is_healthy: bool) -> Answer {
    let is_good = local_endpoints > 0 && is_healthy;
    let status = if is_good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (namespace, name) = (quoted(&service.namespace), quoted(&service.name));
    let body = format!(
        "{{\n\t\"service\": {{\n\t\t\"namespace\": {namespace},\n\t\t\"name\": {name}\n\t}},\n\
         \t\"localEndpoints\": {local_endpoints},\n\t\"serviceProxyHealthy\": {is_healthy}\n}}"
    );
    let mut answer = answer(status, JSON, body);
    answer.headers_mut().insert(WEIGHT, HeaderValue::from(local_endpoints));
    answer
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
