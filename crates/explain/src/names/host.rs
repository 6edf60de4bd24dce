//! The host that the text of a question names.

use std::net::IpAddr;

use super::PathQuestion;
use super::term::{Destination, Kind, Name, Place, Port};

/// A pod or a node, before it is looked up anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedHost {
    Address(IpAddr),
    Node(String),
    Pod {
        namespace: Option<String>,
        name: String,
    },
    /// A pod, a node, or neither.
    Bare {
        namespace: Option<String>,
        name: String,
    },
    /// A Service or a mistake.
    Other,
}

impl NamedHost {
    fn of(place: Place) -> Self {
        match place {
            Place::Address(address) => Self::Address(address),
            Place::Named(Name { kind, namespace, name }) => match kind {
                Kind::Pod => Self::Pod { namespace, name },
                Kind::Node => Self::Node(name),
                Kind::Any => Self::Bare { namespace, name },
                Kind::Service(_) => Self::Other,
            },
        }
    }
}

impl PathQuestion {
    /// The host that sends, and its port if this is about a connection.
    pub fn source_host(&self) -> (NamedHost, Option<u16>) {
        if let Ok(place) = Place::parse(&self.source) {
            return (NamedHost::of(place), None);
        }
        match Destination::parse(&self.source) {
            Ok(Destination { place, port: Some(Port::Number(port)), .. }) => (NamedHost::of(place), Some(port)),
            _ => (NamedHost::Other, None),
        }
    }

    /// The destination, with this namespace if it has a kind and no namespace of its own.
    pub fn destination_in(&self, namespace: &str) -> String {
        match Destination::parse(&self.destination).map(|destination| destination.place) {
            Ok(Place::Named(Name { kind: Kind::Pod | Kind::Service(_), namespace: None, .. })) => {
                self.destination.replacen('/', &format!("/{namespace}/"), 1)
            }
            _ => self.destination.clone(),
        }
    }
}
