//! A generated cluster, as manifests and as facts.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use portolan_model::{
    Family, Protocol, Service, ServiceName, ServicePort, Slice, SliceEndpoint, SlicePort, Slices, Snapshot,
};

/// Large enough for the largest size.
pub(crate) const SERVICE_RANGE: &str = "10.64.0.0/12";
const PER_FILE: usize = 100;

pub(crate) fn name(number: u32) -> ServiceName {
    ServiceName::new(&format!("namespace-{}", number % 100), &format!("service-{number}"))
}

pub(crate) fn cluster_ip(number: u32) -> IpAddr {
    Ipv4Addr::from(0x0a41_0000 + number).into()
}

pub(crate) fn endpoint_address(number: u32, index: u32) -> Ipv4Addr {
    Ipv4Addr::from(0x0b00_0000 + number * 8 + index)
}

/// Services of all sizes that clusters have: most with the given number of endpoints.
pub(crate) fn facts(services: u32, endpoints: u32) -> Snapshot {
    let range = SERVICE_RANGE.parse().expect("a range");
    let mut snapshot = Snapshot { service_ranges: [range].into(), ..Snapshot::default() };
    for number in 0..services {
        snapshot.services.insert(name(number), Arc::new(service(number)));
        let addresses = (0..endpoints).map(|index| endpoint_address(number, index).into());
        snapshot.slices.insert(name(number), Arc::new(slices(addresses)));
    }
    snapshot
}

fn service(number: u32) -> Service {
    let mut service = Service::empty(name(number));
    service.cluster_ips = [cluster_ip(number)].into();
    service.ports = [ServicePort { name: "http".into(), protocol: Protocol::Tcp, port: 80, node_port: None }].into();
    service
}

pub(crate) fn slices(addresses: impl Iterator<Item = IpAddr>) -> Slices {
    let endpoint = |address| SliceEndpoint::on("another-node", address);
    let ports = [SlicePort { name: "http".into(), protocol: Protocol::Tcp, port: 8080 }].into();
    let endpoints = addresses.map(endpoint).collect();
    Slices(
        [Arc::new(Slice { name: "one".into(), family: Family::V4, is_for_names_only: false, ports, endpoints })].into(),
    )
}

/// The same cluster as YAML, with the fields that a real API server fills in.
pub(crate) fn write_manifests(directory: &Path, services: u32, endpoints: u32) {
    std::fs::create_dir_all(directory).expect("the directory can be made");
    let numbers: Vec<u32> = (0..services).collect();
    for (index, numbers) in numbers.chunks(PER_FILE).enumerate() {
        let text: String = numbers.iter().map(|number| manifest(*number, endpoints)).collect();
        std::fs::write(directory.join(format!("{index:05}.yaml")), text).expect("the manifests can be written");
    }
}

fn manifest(number: u32, endpoints: u32) -> String {
    let ServiceName { namespace, name } = name(number);
    let mut text = format!(
        "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  labels:\n    \
         app.kubernetes.io/name: {name}\n  uid: 00000000-0000-0000-0000-{number:012}\nspec:\n  type: ClusterIP\n  \
         internalTrafficPolicy: Cluster\n  ipFamilyPolicy: SingleStack\n  sessionAffinity: None\n  ports:\n  - name: \
         http\n    port: 80\n    protocol: TCP\n    targetPort: 8080\n  selector:\n    app.kubernetes.io/name: \
         {name}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-abcde\n  \
         namespace: {namespace}\n  labels:\n    kubernetes.io/service-name: {name}\n    \
         endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io\naddressType: IPv4\nports:\n- name: \
         http\n  port: 8080\n  protocol: TCP\nendpoints:\n"
    );
    for index in 0..endpoints {
        let address = endpoint_address(number, index);
        _ = write!(
            text,
            "- addresses:\n  - {address}\n  conditions:\n    ready: true\n    serving: true\n    terminating: false\n  \
             nodeName: node-{}\n  targetRef:\n    kind: Pod\n    name: {name}-{index}\n    namespace: {namespace}\n  \
             zone: zone-{}\n",
            number % 500 + 1,
            index % 3
        );
    }
    text
}
