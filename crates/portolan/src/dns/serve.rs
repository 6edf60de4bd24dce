//! The server and its pages, and the zone that it answers from.

use std::sync::{Mutex, PoisonError};
use std::sync::Arc;

use anyhow::Context;
use portolan_dns::zone::Zone;
use portolan_dns::{Resolver, Server};
use portolan_model::Snapshot;
use portolan_status::PlainServer;
use tokio::runtime::Handle;

use super::settings::DnsSettings;
use super::{now_in_seconds, pages};

/// Names being served. Dropped, the ports close.
pub struct Names {
    settings: DnsSettings,
    resolver: Arc<Resolver>,
    zone: Mutex<Arc<Zone>>,
    server: Server,
    _pages: Vec<PlainServer>,
}

impl Names {
    /// Opens the ports. Until something is published, names of the cluster are answered with SERVFAIL.
    pub fn start(settings: DnsSettings, runtime: &Handle) -> anyhow::Result<Self> {
        let resolver = Arc::new(Resolver::new(settings.config.clone()));
        let server = Server::start(&settings.listen, &resolver, runtime).context("serving names")?;
        let pages = pages::start(&settings, &resolver, &server, runtime)?;
        let zone = Mutex::new(Arc::new(Zone::new(Arc::new(settings.config.zone.clone()))));
        for address in &server.addresses {
            tracing::info!("answering questions about names at {address}");
        }
        Ok(Self { settings, resolver, zone, server, _pages: pages })
    }

    /// From when this returns, all answers are from these facts.
    pub fn publish(&self, snapshot: &Snapshot) {
        let mut zone = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
        *zone = Arc::new(zone.follow(snapshot, now_in_seconds()));
        self.resolver.published.publish(zone.clone());
    }

    pub fn settings(&self) -> &DnsSettings {
        &self.settings
    }

    pub fn server(&self) -> &Server {
        &self.server
    }
}
