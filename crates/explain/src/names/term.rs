//! The text of a question, parsed: an address, or a name with an optional kind and namespace; a port, by number or by name.

use std::net::{IpAddr, SocketAddr};

use portolan_model::Protocol;

/// Longer than any name with namespace, domain and port.
const LONGEST: usize = 512;

const FORMS: &str = "write an address, pod/NAMESPACE/NAME, node/NAME, svc/NAMESPACE/NAME, lb/…, nodeport/…, externalip/… \
                     or a bare name";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Address(IpAddr),
    Named(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) kind: Kind,
    pub(super) namespace: Option<String>,
    /// Without a kind and a namespace it may be qualified by dots: `web.default`, `web.default.svc.cluster.local`.
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Pod,
    Node,
    Service(Via),
}

/// Which addresses of a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    ClusterIp,
    LoadBalancer,
    ExternalIp,
    NodePort,
}

impl Kind {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "pod" | "pods" | "po" => Self::Pod,
            "node" | "nodes" | "no" => Self::Node,
            "svc" | "service" | "services" => Self::Service(Via::ClusterIp),
            "lb" | "loadbalancer" => Self::Service(Via::LoadBalancer),
            "externalip" | "external-ip" => Self::Service(Via::ExternalIp),
            "nodeport" => Self::Service(Via::NodePort),
            _ => return None,
        })
    }
}

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        let mistake = || format!("{text:?} is neither an address nor a name: {FORMS}");
        if text.len() > LONGEST {
            return Err(format!("a name has at most {LONGEST} bytes"));
        }
        let (kind, rest) = match text.split_once('/') {
            Some((word, rest)) => Kind::parse(word).map_or((Kind::Any, text), |kind| (kind, rest)),
            None => (Kind::Any, text),
        };
        let (namespace, name) = match rest.split_once('/') {
            Some((namespace, name)) if kind != Kind::Node => (Some(namespace), name),
            Some(_) => return Err(mistake()),
            None => (None, rest),
        };
        if name.is_empty() || name.contains(['/', ':']) || namespace == Some("") {
            return Err(mistake());
        }
        Ok(Self::Named(Name { kind, namespace: namespace.map(str::to_owned), name: name.to_owned() }))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Destination {
    pub(super) place: Place,
    /// `None` is about all ports.
    pub(super) port: Option<Port>,
    pub(super) protocol: Option<Protocol>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Port {
    Number(u16),
    Name(String),
}

impl Destination {
    pub(super) fn is_socket(&self) -> bool {
        matches!((&self.place, &self.port), (Place::Address(_), Some(Port::Number(_))))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self { place: Place::Address(address), port: None, protocol: None });
        }
        // A protocol follows a port; without a port the last part of the text is a name.
        let (rest, protocol) = match text.rsplit_once('/').filter(|(rest, _)| has_port(rest)) {
            Some((rest, protocol)) => (rest, Some(protocol.parse()?)),
            None => (text, None),
        };
        if let Ok(socket) = rest.parse::<SocketAddr>() {
            let port = Some(Port::parse(&socket.port().to_string(), text)?);
            return Ok(Self { place: Place::Address(socket.ip()), port, protocol });
        }
        let (place, port) = match rest.rsplit_once(':').filter(|_| has_port(rest)) {
            Some((place, port)) => (place, Some(Port::parse(port, text)?)),
            None => (rest, None),
        };
        let place = place.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(place);
        Ok(Self { place: Place::parse(place)?, port, protocol })
    }
}

fn has_port(text: &str) -> bool {
    match text.rsplit_once(']') {
        Some((_, rest)) => rest.starts_with(':'),
        None => text.rsplit('/').next().is_some_and(|last| last.contains(':')),
    }
}

impl Port {
    fn parse(port: &str, text: &str) -> Result<Self, String> {
        let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(number @ 1..) if is_number => Ok(Self::Number(number)),
            _ if is_number || port.is_empty() => {
                Err(format!("{text:?} has no port that exists: a port is 1 to 65535, or the name of a Service port"))
            }
            _ => Ok(Self::Name(port.to_owned())),
        }
    }
}
