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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_without_a_namespace_gets_one() {
        let within =
            |text: &str| PathQuestion { destination: text.into(), ..PathQuestion::default() }.destination_in("shop");
        assert_eq!(within("svc/web:80/tcp"), "svc/shop/web:80/tcp");
        assert_eq!(within("lb/web"), "lb/shop/web");
        for whole in ["svc/other/web:80", "web", "node/n1:80", "10.96.0.1:80", "[fd00::1]:80"] {
            assert_eq!(within(whole), whole);
        }
    }

    #[test]
    fn a_source_is_a_pod_a_node_an_address_or_something_else() {
        let host = |text: &str| {
            let question = PathQuestion { source: text.into(), ..PathQuestion::default() };
            question.source_host()
        };
        let pod = |namespace: Option<&str>, name: &str| NamedHost::Pod {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(host("pod/web-1"), (pod(None, "web-1"), None));
        assert_eq!(host("po/default/web-1"), (pod(Some("default"), "web-1"), None));
        assert_eq!(host("pod/default/web-1:40000"), (pod(Some("default"), "web-1"), Some(40_000)));
        assert_eq!(host("node/n1"), (NamedHost::Node("n1".into()), None));
        assert_eq!(host("n1"), (NamedHost::Bare { namespace: None, name: "n1".into() }, None));
        assert_eq!(host("10.0.0.1").0, NamedHost::Address("10.0.0.1".parse().expect("an address")));
        assert_eq!(host("[fd00::1]:9").0, NamedHost::Address("fd00::1".parse().expect("an address")));
        assert_eq!(host("svc/web").0, NamedHost::Other);
        assert_eq!(host("a b:c").0, NamedHost::Other);
    }
}
