//! The names of chains, hashed as in kube-proxy, so that operators and tools that know its chains find them here.

use std::net::SocketAddr;
use std::sync::Arc;

use portolan_plan::PortKey;
use ring::digest::{SHA256, digest};

pub(crate) const SERVICES: &str = "KUBE-SERVICES";
pub(crate) const NODE_PORTS: &str = "KUBE-NODEPORTS";
pub(crate) const EXTERNAL_SERVICES: &str = "KUBE-EXTERNAL-SERVICES";
pub(crate) const PROXY_FIREWALL: &str = "KUBE-PROXY-FIREWALL";
pub(crate) const FORWARD: &str = "KUBE-FORWARD";
pub(crate) const POSTROUTING: &str = "KUBE-POSTROUTING";
pub(crate) const MARK_MASQUERADE: &str = "KUBE-MARK-MASQ";
pub(crate) const CANARY: &str = "KUBE-PROXY-CANARY";
/// Addresses that belong to Services alone; kube-proxy's iptables mode has no such chain.
pub(crate) const CLUSTER_IPS: &str = "KUBE-CLUSTER-IPS";
/// Node ports that are refused, where they are not served on all addresses of the node.
pub(crate) const REFUSED_NODE_PORTS: &str = "KUBE-NODEPORTS-REFUSED";

/// The kinds of chains of a Service port, in the order of creation: each jumps only to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Endpoint,
    Cluster,
    Local,
    External,
    Firewall,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Endpoint, Self::Cluster, Self::Local, Self::External, Self::Firewall];

    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Endpoint => "KUBE-SEP-",
            Self::Cluster => "KUBE-SVC-",
            Self::Local => "KUBE-SVL-",
            Self::External => "KUBE-EXT-",
            Self::Firewall => "KUBE-FW-",
        }
    }

    pub(crate) fn of(chain: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| chain.starts_with(kind.prefix()))
    }
}

pub(crate) fn service_chain(kind: Kind, port: &PortKey) -> Arc<str> {
    format!("{}{}", kind.prefix(), digest_of(&identity(port))).into()
}

pub(crate) fn endpoint_chain(port: &PortKey, endpoint: SocketAddr) -> Arc<str> {
    format!("{}{}", Kind::Endpoint.prefix(), digest_of(&format!("{}{endpoint}", identity(port)))).into()
}

fn identity(port: &PortKey) -> String {
    format!("{port}{}", port.name.protocol)
}

const LENGTH: usize = 16;
const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The beginning of the SHA-256 digest in base 32.
pub(crate) fn digest_of(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    let bits = |index: usize| {
        let (byte, shift) = (index * 5 / 8, index * 5 % 8);
        let word = u16::from_be_bytes([digest.as_ref()[byte], digest.as_ref()[byte + 1]]);
        usize::from(word >> (11 - shift)) & 31
    };
    (0..LENGTH).map(|index| char::from(ALPHABET[bits(index)])).collect()
}

#[cfg(test)]
mod tests {
    use portolan_model::{Family, Protocol, ServiceName, ServicePortName};

    use super::*;

    fn port(namespace: &str, name: &str, port: &str) -> PortKey {
        let service = ServiceName::new(namespace, name);
        let name = ServicePortName { service, port: port.into(), protocol: Protocol::Tcp };
        PortKey { name: Arc::new(name), family: Family::V4 }
    }

    #[test]
    fn names_are_kube_proxys() {
        let known = [
            ("ns1", "svc1", "p80", "KUBE-SVC-XPGD46QRK7WJZT7O"),
            ("ns2", "svc2", "p8080", "KUBE-SVC-2VJB64SDSIJUP5T6"),
            ("default", "kubernetes", "https", "KUBE-SVC-NPX46M4PTMTKRN6Y"),
        ];
        for (namespace, name, port_name, chain) in known {
            assert_eq!(&*service_chain(Kind::Cluster, &port(namespace, name, port_name)), chain);
        }
        let endpoint = endpoint_chain(&port("ns1", "svc1", "p80"), "10.0.0.0:80".parse().unwrap());
        assert_eq!(&*endpoint, "KUBE-SEP-DKGQUZGBKLTPAR56");
    }
}
