//! The kernel's connection table.

use std::time::Duration;

use portolan_config::Document;

/// Limits and timeouts; `None` leaves the kernel's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackSettings {
    pub max_per_core: Option<u32>,
    pub min: u32,
    pub tcp_established: Option<Duration>,
    pub tcp_close_wait: Option<Duration>,
    pub be_liberal: bool,
    pub udp: Option<Duration>,
    pub udp_stream: Option<Duration>,
}

impl ConntrackSettings {
    pub(super) fn read(document: &Document) -> Self {
        let count = |path: &str| u32::try_from(document.integer(path)).unwrap_or(0);
        let span = |path: &str| Some(document.span(path).duration()).filter(|it| !it.is_zero());
        Self {
            max_per_core: Some(count("conntrack.maxPerCore")).filter(|it| *it > 0),
            min: count("conntrack.min"),
            tcp_established: span("conntrack.tcpEstablishedTimeout"),
            tcp_close_wait: span("conntrack.tcpCloseWaitTimeout"),
            be_liberal: document.boolean("conntrack.tcpBeLiberal"),
            udp: span("conntrack.udpTimeout"),
            udp_stream: span("conntrack.udpStreamTimeout"),
        }
    }
}
