//! Environment variables for Services, as kubelet sets them when a container starts.

use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{Service, ServiceName, Snapshot};

/// The Service whose variables every container gets.
const ALWAYS: (&str, &str) = ("default", "kubernetes");

/// Names and values for a container in that namespace. Without service links only the Service of the API server is
/// included.
pub fn variables(facts: &Snapshot, namespace: &str, with_links: bool) -> Vec<(String, String)> {
    let mut services: Vec<&Arc<Service>> = if with_links { of_namespace(facts, namespace) } else { Vec::new() };
    let (always, name) = ALWAYS;
    // A Service of the same name in the namespace of the container takes its place.
    if !services.iter().any(|service| *service.name.name == *name) {
        let wanted = ServiceName::new(always, name);
        services.extend(facts.services.get(&wanted).or_else(|| facts.foreign.get(&wanted)));
    }
    services.sort_by(|one, other| one.name.name.cmp(&other.name.name));
    services.iter().flat_map(|service| of_service(service)).collect()
}

fn of_namespace<'a>(facts: &'a Snapshot, namespace: &'a str) -> Vec<&'a Arc<Service>> {
    let first = ServiceName::new(namespace, "");
    let ours = facts.services.range(first.clone()..).chain(facts.foreign.range(first..));
    ours.filter(|(name, _)| *name.namespace == *namespace).map(|(_, service)| service).collect()
}

/// Empty for Services without a ClusterIP: headless ones and ExternalNames.
fn of_service(service: &Service) -> Vec<(String, String)> {
    let (Some(address), Some(first)) = (service.cluster_ips.first(), service.ports.first()) else { return Vec::new() };
    let prefix = variable_name(&service.name.name);
    let mut variables = vec![
        (format!("{prefix}_SERVICE_HOST"), address.to_string()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
    ];
    for port in service.ports.iter().filter(|port| !port.name.is_empty()) {
        variables.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(&port.name)), port.port.to_string()));
    }
    for (index, port) in service.ports.iter().enumerate() {
        let url = format!("{}://{}", port.protocol, socket(*address, port.port));
        if index == 0 {
            variables.push((format!("{prefix}_PORT"), url.clone()));
        }
        let prefix = format!("{prefix}_PORT_{}_{}", port.port, port.protocol.to_string().to_uppercase());
        variables.push((prefix.clone(), url));
        variables.push((format!("{prefix}_PROTO"), port.protocol.to_string()));
        variables.push((format!("{prefix}_PORT"), port.port.to_string()));
        variables.push((format!("{prefix}_ADDR"), address.to_string()));
    }
    variables
}

fn variable_name(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

fn socket(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(address) => format!("{address}:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}
