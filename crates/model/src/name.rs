//! Names of Services and of their ports.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::Protocol;

/// `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceName {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl ServiceName {
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl Ord for ServiceName {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_shared(&self.namespace, &other.namespace).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ServiceName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares strings that are usually equal and one in memory, such as namespaces: then their bytes are not read.
pub fn compare_shared(left: &Arc<str>, right: &Arc<str>) -> Ordering {
    if Arc::ptr_eq(left, right) { Ordering::Equal } else { left.cmp(right) }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// Namespace and name of a Pod.
pub type PodName = (Arc<str>, Arc<str>);

/// One port of one Service. The protocol is part of the identity but not of the printed name, as with kube-proxy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortName {
    pub service: ServiceName,
    pub port: Arc<str>,
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.port {
            "" => write!(formatter, "{}", self.service),
            port => write!(formatter, "{}:{port}", self.service),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_text_wherever_it_is_in_memory() {
        let shared = ServiceName::new("b", "one");
        let beside = ServiceName { name: "two".into(), ..shared.clone() };
        assert!(shared < beside && beside < ServiceName::new("c", "one"));
        assert_eq!(shared.cmp(&ServiceName::new("b", "one")), Ordering::Equal);
        assert_eq!(shared.cmp(&ServiceName::new("b", "a")), "one".cmp("a"));
        assert!(ServiceName::new("a", "z") < shared);
    }
}
