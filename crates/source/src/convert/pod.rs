//! Pods. A manifest may be short: a Pod without `spec.nodeName` runs on this node, one without any `status.conditions` is
//! ready, and `status.podIP` alone is enough.

use std::net::IpAddr;

use super::context::{Context, Defaults, Flaw};
use super::identity::{hostname, node_name};
use super::{balancing, check};
use crate::intern::Interner;
use crate::object::{NamedPort, Pod};
use crate::spec::{self, Container, ContainerPort, PodSpec, PodStatus, texts};

pub(crate) fn convert(object: &spec::Pod, defaults: Defaults<'_>, context: &mut Context<'_>) -> Result<Pod, Flaw> {
    let spec::Pod { metadata, spec, status } = object;
    let addresses = addresses(status, context)?;
    let weight = balancing::weight(metadata, context);
    let names = &mut *context.names;
    let node = node_name(&spec.node_name, names, || "spec.nodeName".to_owned())?;
    Ok(Pod {
        labels: texts(&metadata.labels).map(|(key, value)| (names.share(key), names.share(value))).collect(),
        addresses,
        node: node.unwrap_or_else(|| names.share(defaults.node_name)),
        serving: is_serving(status),
        terminating: metadata.deletion_timestamp.is_some(),
        hostname: hostname(&spec.hostname, || "spec.hostname".to_owned())?,
        subdomain: hostname(&spec.subdomain, || "spec.subdomain".to_owned())?,
        ports: ports(spec, names)?,
        weight,
        service_links: spec.enable_service_links.unwrap_or(true),
    })
}

fn is_serving(status: &PodStatus) -> bool {
    match status.conditions.iter().find(|condition| condition.r#type == "Ready") {
        Some(condition) => condition.status == "True",
        None => status.conditions.is_empty(),
    }
}

/// None for a Pod that has finished.
pub(crate) fn addresses(status: &PodStatus, context: &mut Context<'_>) -> Result<Box<[IpAddr]>, Flaw> {
    if matches!(&*status.phase, "Succeeded" | "Failed") {
        return Ok([].into());
    }
    let given = status.pod_ips.iter().enumerate().filter(|(_, pod)| !pod.ip.is_empty());
    let mut given: Vec<(String, &str)> =
        given.map(|(index, pod)| (format!("status.podIPs[{index}].ip"), &*pod.ip)).collect();
    if given.is_empty() && !status.pod_ip.is_empty() {
        given.push(("status.podIP".to_owned(), &status.pod_ip));
    }
    let mut address = |(path, text): (String, &str)| {
        let address = check::usable_address(text, || path.clone()).map(Some);
        context.or(address, None).transpose()
    };
    given.into_iter().filter_map(&mut address).collect()
}

/// The named ports of containers, then of init containers that keep running beside them.
fn ports(spec: &PodSpec, names: &mut Interner) -> Result<Box<[NamedPort]>, Flaw> {
    let mut ports = Vec::new();
    for (index, container) in spec.containers.iter().enumerate() {
        add_ports(container, &format!("spec.containers[{index}]"), names, &mut ports)?;
    }
    for (index, container) in spec.init_containers.iter().enumerate() {
        if container.restart_policy == "Always" {
            add_ports(container, &format!("spec.initContainers[{index}]"), names, &mut ports)?;
        }
    }
    Ok(ports.into())
}

fn add_ports(container: &Container, path: &str, names: &mut Interner, ports: &mut Vec<NamedPort>) -> Result<(), Flaw> {
    for (index, port) in container.ports.iter().enumerate().filter(|(_, port)| !port.name.is_empty()) {
        ports.push(named_port(port, &format!("{path}.ports[{index}]"), names)?);
    }
    Ok(())
}

fn named_port(port: &ContainerPort, path: &str, names: &mut Interner) -> Result<NamedPort, Flaw> {
    let number = port.container_port;
    let number = number.ok_or_else(|| Flaw::new(format!("{path}.containerPort"), "a port is required"))?;
    Ok(NamedPort {
        name: names.share(&port.name),
        protocol: check::protocol(&port.protocol, || format!("{path}.protocol"))?,
        port: check::port_number(number, || format!("{path}.containerPort"))?,
    })
}
