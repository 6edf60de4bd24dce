//! `/health`, `/ready` and `/metrics`, as in CoreDNS.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use portolan_dns::{Published, Resolver, Server};
use portolan_status::{Listen, PlainServer, Respond};
use tokio::runtime::Handle;

use crate::settings::DnsSettings;

const OK: u16 = 200;
const UNAVAILABLE: u16 = 503;

/// One server per address, with the pages that are configured there.
pub(super) fn start(settings: &DnsSettings, server: &Server, runtime: &Handle) -> anyhow::Result<Vec<PlainServer>> {
    let mut wanted: BTreeMap<SocketAddr, Vec<&'static str>> = BTreeMap::new();
    for (address, page) in [(settings.health, "/health"), (settings.ready, "/ready"), (settings.metrics, "/metrics")] {
        if let Some(address) = address {
            wanted.entry(address).or_default().push(page);
        }
    }
    let at = server.addresses.first().map_or_else(String::new, |address| format!("dns://{address}"));
    let start = |(address, pages): (SocketAddr, Vec<&'static str>)| {
        let listen = Listen { address: Some(address), must_succeed: true };
        let respond = respond(pages, server.resolver.clone(), at.clone());
        PlainServer::start("DNS", listen, respond, runtime).context("serving health and metrics of DNS")
    };
    wanted.into_iter().map(start).collect()
}

fn respond(pages: Vec<&'static str>, current: Arc<Published<Resolver>>, server: String) -> Respond {
    Arc::new(move |path| {
        let page = pages.iter().find(|page| **page == path)?;
        let resolver = current.current()?;
        Some(match *page {
            "/health" => (OK, "OK".to_owned()),
            "/ready" if resolver.published.current().is_some() => (OK, "OK".to_owned()),
            "/ready" => (UNAVAILABLE, "kubernetes".to_owned()),
            _ => (OK, resolver.metrics_page(&server)),
        })
    })
}
