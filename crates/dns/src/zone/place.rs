//! Resolves a name within our zones.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::Protocol;

use super::addresses::from_dashed;
use super::{Entry, Pods, Zone, reverse_address};
use crate::wire::{Labels, Name};

/// The meaning of a name in our zones. Whether it has records of a given type is decided later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    Apex,
    /// `dns-version.<zone>`.
    Version,
    /// `ns.dns.<zone>`, the name of this server if no Service leads to it.
    Server,
    /// Only names below it exist: `svc.<zone>`, `<namespace>.svc.<zone>`.
    Empty,
    Service(&'a Arc<Entry>),
    /// `_<port>._<protocol>.<service>…`.
    Port {
        entry: &'a Arc<Entry>,
        port: &'a [u8],
        protocol: Protocol,
    },
    /// `<endpoint>.<service>…`.
    Endpoint {
        entry: &'a Arc<Entry>,
        label: &'a [u8],
    },
    Pod(IpAddr),
    /// An address to resolve to a name.
    Reverse(IpAddr),
    Nothing,
}

/// At most: two labels of a port, service, namespace, and `svc`; one more to detect longer names.
const MAX_LABELS: usize = 6;

impl Zone {
    /// Our zone that contains the name, and the meaning of the name there. `None` for names that are not ours.
    pub fn place<'a>(&'a self, name: &'a Name) -> Option<(&'a Name, Place<'a>)> {
        for zone in &self.config().zones {
            if let Some(labels) = name.before(zone) {
                return Some((zone, self.place_within(labels)));
            }
        }
        let zone = self.config().reverse_zones.iter().find(|zone| name.is_within(zone))?;
        Some((zone, reverse_address(name).map_or(Place::Nothing, Place::Reverse)))
    }

    fn place_within<'a>(&'a self, prefix: &'a [u8]) -> Place<'a> {
        let mut labels: [&[u8]; MAX_LABELS] = [b""; MAX_LABELS];
        let mut n_labels = 0;
        for label in Labels::of(prefix).take(MAX_LABELS) {
            labels[n_labels] = label;
            n_labels += 1;
        }
        match &labels[..n_labels] {
            [] => Place::Apex,
            [b"dns-version"] => Place::Version,
            [b"ns", b"dns"] => Place::Server,
            [b"dns" | b"svc" | b"pod"] => Place::Empty,
            [namespace, b"svc" | b"pod"] => self.place_of_namespace(namespace),
            [pod, namespace, b"pod"] => self.place_of_pod(pod, namespace),
            [before @ .., service, namespace, b"svc"] if before.len() <= 2 => {
                let key = &prefix[prefix.len() - service.len() - namespace.len() - 6..prefix.len() - 4];
                self.entries.get(key).map_or(Place::Nothing, |entry| place_of_service(entry, before))
            }
            _ => Place::Nothing,
        }
    }

    fn place_of_namespace(&self, namespace: &[u8]) -> Place<'_> {
        let exists = std::str::from_utf8(namespace).is_ok_and(|namespace| self.has_namespace(namespace));
        if exists { Place::Empty } else { Place::Nothing }
    }

    fn place_of_pod(&self, pod: &[u8], namespace: &[u8]) -> Place<'_> {
        let texts = std::str::from_utf8(pod).ok().zip(std::str::from_utf8(namespace).ok());
        let Some((pod, namespace)) = texts else { return Place::Nothing };
        let Some(address) = from_dashed(pod).filter(|_| self.has_namespace(namespace)) else { return Place::Nothing };
        let is_known = match self.config().pods {
            Pods::Disabled => false,
            Pods::Insecure => true,
            Pods::Verified => self.has_pod(address, namespace),
        };
        if is_known { Place::Pod(address) } else { Place::Nothing }
    }
}

fn place_of_service<'a>(entry: &'a Arc<Entry>, before: &[&'a [u8]]) -> Place<'a> {
    match before {
        [] => Place::Service(entry),
        _ if entry.is_external() => Place::Nothing,
        [label] => Place::Endpoint { entry, label },
        [port, protocol] => {
            let protocol = underscored(protocol).and_then(|name| std::str::from_utf8(name).ok()?.parse().ok());
            match underscored(port).zip(protocol) {
                Some((port, protocol)) => Place::Port { entry, port, protocol },
                None => Place::Nothing,
            }
        }
        _ => Place::Nothing,
    }
}

fn underscored(label: &[u8]) -> Option<&[u8]> {
    label.strip_prefix(b"_").filter(|name| !name.is_empty())
}
