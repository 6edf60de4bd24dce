//! The objects of this mode: iptables rules, and the listeners that they lead to.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use portolan_model::{Algorithm, Family, HashOf, Protocol};
use portolan_plan::{Balance, Pool, PortKey, Selection};
use portolan_relay::Selection as RelaySelection;

use crate::tables::{self, names::digest_of};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Table(tables::Key),
    Listener(Listener),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Table(tables::Value),
    Targets(Targets),
}

/// Accepts connections for one pool of endpoints of one Service port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listener {
    pub family: Family,
    pub protocol: Protocol,
    /// `namespace/service:port/protocol/pool`, without blanks.
    pub name: Arc<str>,
}

/// Where new connections go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    pub endpoints: Box<[SocketAddr]>,
    pub balance: Balance,
    pub affinity_seconds: Option<u32>,
}

impl Listener {
    pub(super) fn new(port: &PortKey, pool: Pool) -> Self {
        let protocol = port.name.protocol;
        Self { family: port.family, protocol, name: format!("{}/{protocol}/{pool}", plain(&port.to_string())).into() }
    }

    /// What [`Self::port_name`] is for the listeners of a Service port.
    pub(crate) fn name_of_port(port: &PortKey) -> String {
        Self::new(port, Pool::Cluster).port_name().to_owned()
    }

    /// `namespace/service:port/protocol`.
    pub fn port_name(&self) -> &str {
        self.name.rsplit_once('/').map_or(&self.name, |(port, _)| port)
    }

    /// `namespace/service/protocol`: the ports, pools and families of a Service have a common share of the relay's
    /// connections. UDP has its own, because the sources of datagrams can be forged.
    pub(super) fn share(&self) -> Arc<str> {
        let port = self.port_name();
        let port = port.rsplit_once('/').map_or(port, |(port, _)| port);
        let service = port.split_once(':').map_or(port, |(service, _)| service);
        format!("{service}/{}", self.protocol).into()
    }

    pub(super) fn relay_name(&self) -> String {
        self.to_string()
    }

    /// Parses a listener's name in the relay; another process may have set it.
    pub(super) fn named(name: &str) -> Option<Self> {
        let (version, name) = name.split_once(' ')?;
        let family = match version {
            "ipv4" => Family::V4,
            "ipv6" => Family::V6,
            _ => return None,
        };
        let protocol = name.rsplit('/').nth(1)?.parse().ok()?;
        Some(Self { family, protocol, name: name.into() })
    }
}

/// A name stands in a rule where words end at blanks. No name from an API server has special characters; any other name
/// is replaced with a digest.
fn plain(name: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | ':' | '/');
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("{}~{}", name.replace(|it| !is_plain(it), "_"), digest_of(name)),
    }
}

impl Targets {
    pub(super) fn for_relay(&self, listener: &Listener) -> portolan_relay::Targets {
        let affinity = self.affinity_seconds.map(|seconds| Duration::from_secs(seconds.into()));
        portolan_relay::Targets {
            endpoints: self.endpoints.to_vec(),
            selection: self.selection(),
            affinity,
            share: Some(listener.share()),
        }
    }

    /// Turns are what this mode does for Services without an algorithm, as kube-proxy's did.
    fn selection(&self) -> RelaySelection {
        match (self.balance.algorithm, self.balance.selection()) {
            (None, _) | (_, Selection::InTurn) => RelaySelection::InTurn,
            (Some(Algorithm::LeastConnections), _) => RelaySelection::LeastConnections,
            (_, Selection::Random) => RelaySelection::Random,
            (_, Selection::ByHash(of)) => RelaySelection::ByHash(of),
        }
    }

    /// How the daemon selects an endpoint that answers.
    pub(super) fn selection_text(&self) -> &'static str {
        match self.selection() {
            RelaySelection::InTurn => "in turns",
            RelaySelection::Random => "at random",
            RelaySelection::ByHash(HashOf::Client) => "by a hash of the client",
            RelaySelection::ByHash(HashOf::ClientAndPort) => "by a hash of the client and its port",
            RelaySelection::LeastConnections => "with the fewest connections",
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.family == Family::V4 { 4 } else { 6 };
        write!(formatter, "ipv{version} {}", self.name)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(key) => write!(formatter, "{key}"),
            Self::Listener(listener) => write!(formatter, "listener {listener}"),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(value) => write!(formatter, "{value}"),
            Self::Targets(targets) => write!(formatter, "{targets}"),
        }
    }
}

/// One endpoint per line, indented like rules.
impl fmt::Display for Targets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seconds) = self.affinity_seconds {
            write!(formatter, "\n    a client stays for {seconds} s")?;
        }
        if self.selection() != RelaySelection::InTurn {
            write!(formatter, "\n    {}", self.selection_text())?;
        }
        self.endpoints.iter().try_for_each(|endpoint| write!(formatter, "\n    to {endpoint}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(name: &str) -> Listener {
        Listener::named(name).expect("it is the name of a listener")
    }

    #[test]
    fn listeners_of_one_service_and_protocol_have_one_share() {
        let names = ["ipv4 a/web:http/tcp/cluster", "ipv6 a/web:https/tcp/local", "ipv4 a/web/tcp/cluster"];
        assert!(names.iter().all(|name| &*listener(name).share() == "a/web/tcp"));
        assert_eq!(&*listener("ipv4 a/web:http/udp/cluster").share(), "a/web/udp");
        assert_eq!(&*listener("ipv4 b/web:http/tcp/cluster").share(), "b/web/tcp");
    }
}
