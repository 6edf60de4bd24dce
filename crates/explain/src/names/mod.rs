//! Names in questions: pods, nodes and Services in the place of addresses.
//!
//! | file | idea |
//! |---|---|
//! | `term` | the text of a question, parsed |
//! | `known` | the names that the facts have, and which of them a term means |
//! | `domain` | names of the cluster's DNS zone |
//! | `suggest` | names that resemble a mistyped one |
//! | `source`, `destination` | from terms to addresses and ports |
//! | `host` | the host that a term names, for commands that look it up elsewhere |
//!
//! All of it is pure: facts and text in, addresses or a message out. A message never contains a control character of a name.

mod destination;
mod domain;
mod host;
mod known;
mod source;
mod suggest;
mod term;

use std::net::IpAddr;

use portolan_model::{Family, ServiceName};
use portolan_plan::{Packet, Plan};
use serde::{Deserialize, Serialize};

use destination::{Target, port_name, targets};
pub use host::NamedHost;
use known::{Found, Known, Wanted};
use source::{Source, looked_up, source};
use term::{Destination, Place, Port};

/// What names are looked up in.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    pub plan: &'a Plan,
    /// The domain of the cluster, such as `cluster.local`.
    pub domain: &'a str,
    /// The addresses of a Node that the facts do not have. It may ask an API server, and returns none for an unknown Node.
    pub node: &'a dyn Fn(&str) -> Vec<IpAddr>,
}

/// Where do packets from a source to a destination go? Both are names or addresses.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PathQuestion {
    pub source: String,
    pub destination: String,
    pub interface: Option<String>,
    /// A process or a pod of this node sends them, also where the facts do not show that.
    pub on_node: bool,
    /// The addresses of the source, where they were looked up already: the facts have no name of a pod without a Service.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
}

/// The packets that a question is about.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    pub packets: Vec<NamedPacket>,
    /// How many more there are, beyond the limit.
    pub omitted: usize,
}

impl Paths {
    pub fn packets(&self) -> Vec<Packet> {
        self.packets.iter().map(|named| named.packet.clone()).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPacket {
    pub source: Option<String>,
    pub destination: Option<String>,
    pub packet: Packet,
}

/// A Service, and one of its ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedService {
    pub service: ServiceName,
    pub port: Option<String>,
}

impl Names<'_> {
    /// The Service that a text such as `web`, `default/web`, `svc/web:http` or `web.default` means.
    pub fn service(&self, text: &str) -> Result<NamedService, String> {
        let known = Known::new(self);
        let destination = Destination::parse(text)?;
        let Place::Named(term) = &destination.place else {
            return Err(format!("{text:?} is an address: write the name of a Service"));
        };
        let found = known.only(term, known.candidates(term, Wanted::Services), None)?;
        let Found::Service(service) = found else { return Err(format!("{text:?} is no Service")) };
        let port = destination.port.as_ref().map(|port| port_name(&service, port)).transpose()?;
        Ok(NamedService { service: service.name.clone(), port })
    }
}

/// The work that one question can cause is bounded.
const MOST_PACKETS: usize = 64;

impl PathQuestion {
    /// Whether both are addresses and the port is given, so that the answer is about one packet.
    pub fn is_of_addresses(&self) -> bool {
        let parsed = (Place::parse(&self.source), Destination::parse(&self.destination));
        matches!(parsed, (Ok(Place::Address(_)), Ok(destination)) if destination.is_socket())
    }

    /// The connection between both: the source has a port, too.
    pub fn connection(&self, names: &Names<'_>) -> Result<(NamedPacket, u16), String> {
        let client = Destination::parse(&self.source)?;
        let Some(Port::Number(port)) = client.port else {
            return Err(format!("{:?} has no port: write the client as CLIENT:PORT", self.source));
        };
        let source = match &client.place {
            Place::Address(address) => address.to_string(),
            Place::Named(_) => self.source.rsplit_once(':').map_or_else(String::new, |(name, _)| name.to_owned()),
        };
        let mut paths = Self { source, ..self.clone() }.paths(names)?;
        match (paths.packets.len(), paths.packets.pop()) {
            (1, Some(packet)) => Ok((packet, port)),
            _ => Err(format!("{:?} stands for several addresses or ports: write one", self.destination)),
        }
    }

    /// Reports a mistake in the text before anything is looked up.
    pub fn check(&self) -> Result<(), String> {
        Place::parse(&self.source)?;
        Destination::parse(&self.destination)?;
        Ok(())
    }

    pub fn paths(&self, names: &Names<'_>) -> Result<Paths, String> {
        let known = Known::new(names);
        let source = match self.addresses.as_slice() {
            [] => source(&known, &Place::parse(&self.source)?)?,
            addresses => looked_up(&Place::parse(&self.source)?, addresses),
        };
        let destination = Destination::parse(&self.destination)?;
        let targets = targets(&known, &destination, source.namespace.as_deref())?;
        let mut packets: Vec<NamedPacket> =
            targets.iter().filter_map(|target| self.packet(names.plan, &source, target)).collect();
        if packets.is_empty() {
            return Err(self.no_common_family(&source, &targets));
        }
        let omitted = packets.len().saturating_sub(MOST_PACKETS);
        packets.truncate(MOST_PACKETS);
        Ok(Paths { packets, omitted })
    }

    /// `None` where the source has no address of the target's family.
    fn packet(&self, plan: &Plan, source: &Source, target: &Target) -> Option<NamedPacket> {
        let address = source.addresses.iter().find(|it| Family::of(**it) == Family::of(target.address))?;
        let packet = Packet {
            source: *address,
            interface: self.interface.as_deref().map(Into::into),
            destination: target.address,
            port: target.port,
            protocol: target.protocol,
            is_from_socket: self.on_node || source.is_here || plan.is_on_node(*address),
        };
        Some(NamedPacket { source: source.label.clone(), destination: target.label.clone(), packet })
    }

    fn no_common_family(&self, source: &Source, targets: &[Target]) -> String {
        let list = |addresses: Vec<String>| addresses.join(", ");
        let from = list(source.addresses.iter().map(ToString::to_string).collect());
        let to = list(targets.iter().map(|target| target.address.to_string()).collect());
        format!("{:?} ({from}) and {:?} ({to}) have no address family in common", self.source, self.destination)
    }
}
