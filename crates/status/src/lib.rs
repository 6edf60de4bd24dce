//! STATUS: health, metrics and debugging pages, over HTTP.
//!
//! The daemon reports events to a [`Status`]; load balancers, Prometheus and operators read it. Everything that
//! blocks runs on the given runtime; methods block for nothing but opening a port.
#![forbid(unsafe_code)]

mod clock;
mod counters;
mod fold;
mod health;
mod healthz;
mod metrics;
mod node_ports;
mod page_server;
mod pages;
mod plain;
mod server;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(windows, path = "windows/mod.rs")]
mod system;
mod traffic;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portolan_model::Family;
use portolan_plan::Plan;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use metrics::Scrape;
use node_ports::HealthCheckPorts;
use pages::Site;

pub use clock::{Clock, Moment};
pub use counters::{Counters, Relayed, Volume};
pub use health::Health;
pub use metrics::{BeforeScrape, Build, Descriptor, Kind, LoadBalancerCall, Metrics, Registry, Synced};
pub use node_ports::HealthCheckFailure;
pub use page_server::{Listen, PageServer};
pub use pages::{Pages, SetVerbosity};
pub use plain::{PlainServer, Respond};
pub use server::ServeConnection;
pub use traffic::{PortLoad, ReadTraffic, TrafficLimits, TrafficSample};

/// The settings that are fixed at startup.
pub struct Options {
    pub healthz: Listen,
    pub metrics: Listen,
    /// How long a change may be pending before the health is bad: twice the sync period.
    pub health_timeout: Duration,
    pub build: Build,
    pub pages: Pages,
    /// The source of traffic counters, if any.
    pub read_traffic: Option<ReadTraffic>,
    pub traffic_limits: TrafficLimits,
    pub clock: Clock,
}

/// Why a server could not start.
#[derive(Debug)]
pub enum Error {
    Healthz(io::Error),
    Metrics(io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Healthz(error) | Self::Metrics(error)) = self;
        error.fmt(formatter)
    }
}

impl std::error::Error for Error {}

/// All servers. Dropping this closes them.
pub struct Status {
    pub health: Health,
    pub metrics: Arc<Metrics>,
    site: Arc<Site>,
    plan: Arc<Mutex<Plan>>,
    healthz_server: PageServer,
    metrics_server: PageServer,
    health_check_ports: Mutex<HealthCheckPorts>,
}

impl Status {
    /// Opens the servers. A server that must succeed and does not is an error; others are retried in the background.
    pub fn start(options: Options, handle: &Handle) -> Result<Self, Error> {
        let (healthz, metrics) = (options.healthz, options.metrics);
        let status = Self::new(options, handle);
        status.listen_healthz(healthz)?;
        status.listen_metrics(metrics)?;
        Ok(status)
    }

    fn new(options: Options, handle: &Handle) -> Self {
        let Options { health_timeout, build, pages, read_traffic, traffic_limits, clock, .. } = options;
        let health = Health::new(health_timeout, clock.clone());
        let metrics = Arc::new(Metrics::new(&build, clock.clone()));
        let plan = Arc::new(Mutex::new(Plan::default()));
        let scrape = Arc::new(Scrape::new(metrics.clone(), plan.clone(), read_traffic, traffic_limits));
        let start = clock.now();
        let (pages, build) = (Mutex::new(Arc::new(pages)), Mutex::new(build));
        let scraping = Arc::new(Semaphore::new(1));
        let site = Arc::new(Site { pages, build, metrics: metrics.clone(), scrape, scraping, clock, start });
        let healthz = healthz::handler(health.clone(), metrics.clone());
        Self {
            healthz_server: PageServer::new("/healthz", healthz, handle.clone()),
            metrics_server: PageServer::new("/metrics", pages::handler(site.clone()), handle.clone()),
            health_check_ports: Mutex::new(HealthCheckPorts::new(health.clone(), handle.clone())),
            health,
            metrics,
            site,
            plan,
        }
    }

    /// Moves the health server at runtime; the same address has no effect.
    pub fn listen_healthz(&self, listen: Listen) -> Result<(), Error> {
        self.healthz_server.listen(listen).map_err(Error::Healthz)
    }

    /// Moves the metrics server at runtime; the same address has no effect.
    pub fn listen_metrics(&self, listen: Listen) -> Result<(), Error> {
        self.metrics_server.listen(listen).map_err(Error::Metrics)
    }

    /// Closes all ports, for the next daemon on this node.
    pub fn close(&self) {
        self.healthz_server.close();
        self.metrics_server.close();
        self.health_check_ports.lock().expect("the lock is not poisoned").close();
    }

    /// The address of the health server; `None` if it is disabled or not open yet.
    pub fn healthz_address(&self) -> Option<SocketAddr> {
        self.healthz_server.address()
    }

    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_server.address()
    }

    /// Replaces the configuration on the pages.
    pub fn set_pages(&self, pages: Pages) {
        *self.site.pages.lock().expect("the lock is not poisoned") = Arc::new(pages);
    }

    pub fn set_build(&self, build: Build) {
        self.metrics.set_build(&build);
        *self.site.build.lock().expect("the lock is not poisoned") = build;
    }

    /// Sets a callback that runs before each scrape of `/metrics`.
    pub fn before_scrape(&self, callback: BeforeScrape) {
        self.site.scrape.set_before(callback);
    }

    /// A change needs a sync.
    pub fn sync_queued(&self) {
        Family::BOTH.iter().for_each(|family| self.health.queued(*family));
        self.metrics.sync_queued();
    }

    /// All pending changes are in the kernel.
    pub fn synced(&self, synced: &Synced) {
        Family::BOTH.iter().for_each(|family| self.health.synced(*family));
        self.metrics.synced(synced);
    }

    /// A sync failed; the daemon retries.
    pub fn sync_failed(&self) {
        self.metrics.sync_failed();
    }

    /// Follows a plan that is in the kernel: opens and closes its health check ports, and exports its size. Failures
    /// are returned for the log and for Events; they are retried with the next plan.
    pub fn follow(&self, plan: &Plan) -> Vec<HealthCheckFailure> {
        *self.plan.lock().expect("the lock is not poisoned") = plan.clone();
        let mut ports = self.health_check_ports.lock().expect("the lock is not poisoned");
        let failures = ports.follow(plan);
        for family in Family::BOTH {
            let failed = failures.iter().filter(|failure| Family::of(failure.address.ip()) == family).count();
            self.metrics.health_check_ports(family, ports.count(family), failed);
        }
        failures
    }
}
