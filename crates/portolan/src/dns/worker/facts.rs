//! The facts that names are made of, as they are sent to the DNS process: only what changed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{
    Extras, Family, Hints, OrdSet, Service, ServiceKind, ServiceName, ServicePort, SetDiffItem, Slice, SliceEndpoint,
    SlicePort, Slices, Snapshot, note_changed,
};
use serde::{Deserialize, Serialize};

/// The difference between two snapshots.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Change {
    services: Vec<Named<ServiceFacts>>,
    foreign: Vec<Named<ServiceFacts>>,
    slices: Vec<Named<Vec<SliceFacts>>>,
    new_namespaces: Vec<String>,
    old_namespaces: Vec<String>,
    new_pods: Vec<(IpAddr, String)>,
    old_pods: Vec<(IpAddr, String)>,
}

/// A value of a Service; `None` if it is gone.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Named<T> {
    namespace: String,
    name: String,
    value: Option<T>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct ServiceFacts {
    cluster_ips: Vec<IpAddr>,
    ports: Vec<Port>,
    /// Of an ExternalName Service.
    external_name: Option<String>,
    is_external: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Port {
    name: String,
    protocol: String,
    port: u16,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SliceFacts {
    is_ipv6: bool,
    ports: Vec<Port>,
    /// Ready endpoints, with their hostnames.
    endpoints: Vec<(IpAddr, Option<String>)>,
}

impl Change {
    pub(super) fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let mut changed = [BTreeSet::new(), BTreeSet::new(), BTreeSet::new()];
        note_changed(&before.services, &after.services, &mut changed[0]);
        note_changed(&before.foreign, &after.foreign, &mut changed[1]);
        note_changed(&before.slices, &after.slices, &mut changed[2]);
        let [services, foreign, slices] = changed;
        let pod = |(address, namespace): &(IpAddr, Arc<str>)| (*address, namespace.to_string());
        Self {
            services: named(services, |name| after.services.get(name).map(|it| ServiceFacts::of(it))),
            foreign: named(foreign, |name| after.foreign.get(name).map(|it| ServiceFacts::of(it))),
            slices: named(slices, |name| after.slices.get(name).map(|it| it.0.iter().map(|it| slice_of(it)).collect())),
            new_namespaces: missing(&after.namespaces, &before.namespaces, ToString::to_string),
            old_namespaces: missing(&before.namespaces, &after.namespaces, ToString::to_string),
            new_pods: missing(&after.pods, &before.pods, pod),
            old_pods: missing(&before.pods, &after.pods, pod),
        }
    }

    pub(super) fn apply(self, snapshot: &mut Snapshot) {
        let services = [(self.services, &mut snapshot.services), (self.foreign, &mut snapshot.foreign)];
        for (changes, services) in services {
            for change in changes {
                let name = change.service();
                match change.value {
                    Some(facts) => services.insert(name.clone(), Arc::new(facts.into_service(name))),
                    None => services.remove(&name),
                };
            }
        }
        for change in self.slices {
            let name = change.service();
            match change.value {
                Some(slices) => {
                    let slices = slices.into_iter().map(|slice| Arc::new(slice.into_slice())).collect();
                    snapshot.slices.insert(name, Arc::new(Slices(slices)))
                }
                None => snapshot.slices.remove(&name),
            };
        }
        self.old_namespaces.iter().for_each(|name| _ = snapshot.namespaces.remove(name.as_str()));
        snapshot.namespaces.extend(self.new_namespaces.into_iter().map(Arc::from));
        for (address, namespace) in self.old_pods {
            snapshot.pods.remove(&(address, Arc::from(namespace)));
        }
        snapshot.pods.extend(self.new_pods.into_iter().map(|(address, namespace)| (address, Arc::from(namespace))));
    }
}

/// What one set has and the other has not. The comparison skips what they share.
fn missing<T: Ord + Clone, U>(here: &OrdSet<T>, there: &OrdSet<T>, convert: impl Fn(&T) -> U) -> Vec<U> {
    there
        .diff(here)
        .filter_map(|item| if let SetDiffItem::Add(item) = item { Some(convert(item)) } else { None })
        .collect()
}

fn named<T>(names: BTreeSet<ServiceName>, value: impl Fn(&ServiceName) -> Option<T>) -> Vec<Named<T>> {
    let named =
        |it: ServiceName| Named { value: value(&it), namespace: it.namespace.to_string(), name: it.name.to_string() };
    names.into_iter().map(named).collect()
}

impl<T> Named<T> {
    fn service(&self) -> ServiceName {
        ServiceName::new(&self.namespace, &self.name)
    }
}

impl ServiceFacts {
    fn of(service: &Service) -> Self {
        let port =
            |it: &ServicePort| Port { name: it.name.to_string(), protocol: it.protocol.to_string(), port: it.port };
        Self {
            cluster_ips: service.cluster_ips.to_vec(),
            ports: service.ports.iter().map(port).collect(),
            external_name: service.external_name.as_deref().map(str::to_owned),
            is_external: service.kind == ServiceKind::ExternalName,
        }
    }

    fn into_service(self, name: ServiceName) -> Service {
        let port = |it: Port| {
            let protocol = it.protocol.parse().ok()?;
            Some(ServicePort { name: it.name.into(), protocol, port: it.port, node_port: None })
        };
        Service {
            kind: if self.is_external { ServiceKind::ExternalName } else { ServiceKind::ClusterIp },
            cluster_ips: self.cluster_ips.into(),
            ports: self.ports.into_iter().filter_map(port).collect(),
            external_name: self.external_name.map(Arc::from),
            ..Service::empty(name)
        }
    }
}

fn slice_of(slice: &Slice) -> SliceFacts {
    let port = |it: &SlicePort| Port { name: it.name.to_string(), protocol: it.protocol.to_string(), port: it.port };
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.conditions.ready);
    SliceFacts {
        is_ipv6: slice.family == Family::V6,
        ports: slice.ports.iter().map(port).collect(),
        endpoints: ready.map(|it| (it.address, it.hostname().map(str::to_owned))).collect(),
    }
}

impl SliceFacts {
    fn into_slice(self) -> Slice {
        let port = |it: Port| {
            let protocol = it.protocol.parse().ok()?;
            Some(SlicePort { name: it.name.into(), protocol, port: it.port })
        };
        let endpoint = |(address, hostname): (IpAddr, Option<String>)| SliceEndpoint {
            extras: Extras { hints: Hints::default(), hostname: hostname.map(String::into_boxed_str) }.boxed(),
            ..SliceEndpoint::new(address)
        };
        Slice {
            name: Arc::from(""),
            family: if self.is_ipv6 { Family::V6 } else { Family::V4 },
            is_for_names_only: true,
            ports: self.ports.into_iter().filter_map(port).collect(),
            endpoints: self.endpoints.into_iter().map(endpoint).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portolan_source::{Manifests, Options};

    fn snapshot(manifests: &str) -> Snapshot {
        let options = Options { service_ranges: vec!["10.96.0.0/16".parse().unwrap()], ..Options::default() };
        Manifests::from_text(options, "cluster.yaml", manifests).0.snapshot()
    }

    /// Sent and received.
    fn carried(change: &Change) -> Change {
        serde_json::from_slice(&serde_json::to_vec(change).unwrap()).unwrap()
    }

    #[test]
    fn changes_that_are_sent_lead_to_the_same_facts() {
        let cluster = include_str!("../../../../dns/tests/dns/names/cluster.yaml");
        let smaller = cluster.rsplit_once("\n---").unwrap().0.replace("10.244.3.2", "10.244.3.9");
        let (mut sent, mut received) = (Snapshot::default(), Snapshot::default());
        for mut next in [snapshot(cluster), snapshot(&smaller), snapshot(""), snapshot(cluster)] {
            next.pods.insert(("10.244.3.1".parse().unwrap(), Arc::from("shop")));
            carried(&Change::between(&sent, &next)).apply(&mut received);
            let all = |snapshot: &Snapshot| Change::between(&Snapshot::default(), snapshot);
            assert_eq!(all(&received), all(&next));
            assert_eq!(Change::between(&next, &next), Change::default());
            sent = next;
        }
        assert!(received.services.len() + received.foreign.len() > 5);
    }
}
