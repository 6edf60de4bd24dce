//! The DNS server, its HTTP pages, and its zone.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use portolan_dns::zone::Zone;
use portolan_dns::{Resolver, Server, Sockets};
use portolan_kernel::local_address::add_local_address;
use portolan_model::{DiffItem, Snapshot};
use portolan_status::PlainServer;
use tokio::runtime::Handle;

use super::untracked::leave_untracked;
use super::{now_in_seconds, pages};
use crate::settings::DnsSettings;

/// A running DNS server. Dropping it closes the ports.
pub struct Names {
    settings: DnsSettings,
    resolver: Arc<Resolver>,
    zone: Mutex<Arc<Zone>>,
    server: Server,
    pages: Vec<PlainServer>,
}

impl Names {
    /// Opens the ports. Until the first publish, cluster names are answered with SERVFAIL.
    pub fn start(settings: DnsSettings, runtime: &Handle) -> anyhow::Result<Self> {
        let sockets = Sockets::open(&settings.listen).context("serving DNS")?;
        Self::start_on(settings, sockets, runtime)
    }

    /// The same on ports that are open already.
    pub fn start_on(settings: DnsSettings, sockets: Sockets, runtime: &Handle) -> anyhow::Result<Self> {
        let resolver = Arc::new(Resolver::new(settings.config.clone()));
        let server = Server::start_on(sockets, &resolver, runtime).context("serving DNS")?;
        let pages = pages::start(&settings, &server, runtime)?;
        let zone = Mutex::new(Arc::new(Zone::new(Arc::new(settings.config.zone.clone()))));
        for address in &server.addresses {
            tracing::info!("serving DNS at {address}");
        }
        Ok(Self { settings, resolver, zone, server, pages })
    }

    /// Puts changed settings in force without a gap. What cannot be changed stays as it is.
    pub fn use_settings(&mut self, mut settings: DnsSettings, runtime: &Handle) {
        if settings.listen != self.settings.listen {
            match self.server.listen(&settings.listen) {
                Ok(()) => self.server.addresses.iter().for_each(|at| tracing::info!("serving DNS at {at}")),
                Err(error) => {
                    tracing::error!("the addresses of DNS stay as they are: {error}");
                    settings.listen = self.settings.listen.clone();
                }
            }
        }
        self.use_config(&settings);
        if settings.pages() != self.settings.pages() {
            self.pages.clear();
            match pages::start(&settings, &self.server, runtime) {
                Ok(pages) => self.pages = pages,
                Err(error) => tracing::error!("{error:#}"),
            }
        }
        self.settings = settings;
    }

    /// The new zone is published before the first query sees the new resolver.
    fn use_config(&mut self, settings: &DnsSettings) {
        let resolver = Arc::new(self.resolver.with_config(settings.config.clone()));
        let mut zone = self.zone.lock().unwrap_or_else(PoisonError::into_inner);
        if settings.config.zone != self.settings.config.zone {
            let empty = Zone::new(Arc::new(settings.config.zone.clone()));
            *zone = Arc::new(empty.follow(zone.facts(), now_in_seconds()));
            if self.resolver.published.current().is_some() {
                resolver.published.publish(zone.clone());
            }
        }
        self.server.resolver.publish(resolver.clone());
        drop(zone);
        self.resolver = resolver;
    }

    /// Changed settings are invalid; those in force stay.
    pub fn note_failed_reload(&self) {
        self.resolver.note_failed_reload();
    }

    /// Withdraws the names of Services that are gone. Call it before their rules are removed, so that no client gets an
    /// address without rules.
    pub fn withdraw(&self, snapshot: &Snapshot) {
        let known = self.zone.lock().unwrap_or_else(PoisonError::into_inner).facts().clone();
        if let Some(kept) = without_removed(&known, snapshot) {
            self.publish(&kept);
        }
    }

    /// After this returns, all answers come from these facts.
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

/// The known facts without the Services that are gone; `None` if there are none.
pub(super) fn without_removed(known: &Snapshot, snapshot: &Snapshot) -> Option<Snapshot> {
    let mut kept = known.clone();
    for item in known.services.diff(&snapshot.services) {
        if let DiffItem::Remove(name, _) = item {
            kept.services.remove(name);
            kept.slices.remove(name);
        }
    }
    (kept.services.len() < known.services.len()).then_some(kept)
}

/// Gives this machine the addresses of its DNS server, and keeps queries out of connection tracking.
pub(super) fn prepare_addresses(addresses: &[SocketAddr]) -> anyhow::Result<()> {
    for address in addresses {
        add_address(address.ip())?;
    }
    if let Err(error) = leave_untracked(addresses) {
        tracing::warn!("{error:#}; DNS is served anyway");
    }
    Ok(())
}

/// Adds the address to this machine. IPv6 has no address that is reserved for this by convention.
fn add_address(address: IpAddr) -> anyhow::Result<()> {
    let is_there = portolan_kernel::addresses::interface_addresses()?.iter().any(|it| it.address == address);
    match address {
        IpAddr::V4(address) if !is_there && !address.is_unspecified() => {
            add_local_address(address).context("adding the DNS address")
        }
        _ => Ok(()),
    }
}
