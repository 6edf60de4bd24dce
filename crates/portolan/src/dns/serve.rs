//! The server and its pages, and the zone that it answers from.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use portolan_dns::zone::Zone;
use portolan_dns::{Resolver, Server};
use portolan_kernel::local_address::add_local_address;
use portolan_model::{DiffItem, Snapshot};
use portolan_status::PlainServer;
use tokio::runtime::Handle;

use super::untracked::leave_untracked;
use super::{now_in_seconds, pages};
use crate::settings::DnsSettings;

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

    /// The same at addresses that this machine need not have yet.
    pub fn start_beside_rules(settings: &DnsSettings, runtime: &Handle) -> anyhow::Result<Self> {
        for address in &settings.listen.addresses {
            have_address(address.ip())?;
        }
        if let Err(error) = leave_untracked(&settings.listen.addresses) {
            tracing::warn!("{error:#}; names are served all the same");
        }
        Self::start(settings.clone(), runtime)
    }

    /// Names of Services that these facts do not have any more go before their rules do: nobody is sent to an address
    /// that leads nowhere.
    pub fn withdraw(&self, snapshot: &Snapshot) {
        let known = self.zone.lock().unwrap_or_else(PoisonError::into_inner).facts().clone();
        let mut kept = known.clone();
        for item in known.services.diff(&snapshot.services) {
            if let DiffItem::Remove(name, _) = item {
                kept.services.remove(name);
                kept.slices.remove(name);
            }
        }
        if kept.services.len() < known.services.len() {
            self.publish(&kept);
        }
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

/// Whoever sends to the address reaches this machine. IPv6 has no addresses that are free for this by habit.
fn have_address(address: IpAddr) -> anyhow::Result<()> {
    let is_there = portolan_kernel::addresses::interface_addresses()?.iter().any(|it| it.address == address);
    match address {
        IpAddr::V4(address) if !is_there && !address.is_unspecified() => {
            add_local_address(address).context("preparing to serve names")
        }
        _ => Ok(()),
    }
}
