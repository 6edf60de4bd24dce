//! Pods. Three conveniences for manifests written by hand: a Pod without `spec.nodeName` is on this node, one without
//! any `status.conditions` is ready, and `status.podIP` alone is enough.

use std::net::IpAddr;
use std::sync::Arc;

use super::{Context, Flaw, check, node_name};
use crate::intern::Interner;
use crate::object::{NamedPort, Object, ObjectId, Pod};
use crate::read::schema::{Container, ContainerPort, Labels, PodDocument, PodSpec, PodStatus};

pub(super) fn convert(document: PodDocument, context: &mut Context<'_>, _: &ObjectId) -> Result<Object, Flaw> {
    let metadata = document.metadata.unwrap_or_default();
    let spec = document.spec.unwrap_or_default();
    let status = document.status.unwrap_or_default();
    let node = node_name(spec.node_name.as_deref(), context.names, || "spec.nodeName".to_owned())?;
    let pod = Pod {
        labels: labels(metadata.labels.unwrap_or_default(), context.names),
        addresses: addresses(&status)?,
        node: node.unwrap_or_else(|| context.names.share(context.node_name)),
        serving: is_serving(&status),
        terminating: metadata.deletion_timestamp.is_some(),
        hostname: super::hostname(spec.hostname.as_deref(), || "spec.hostname".to_owned())?,
        subdomain: super::hostname(spec.subdomain.as_deref(), || "spec.subdomain".to_owned())?,
        ports: ports(&spec, context.names)?,
        service_links: spec.enable_service_links.unwrap_or(true),
    };
    Ok(Object::Pod(Box::new(pod)))
}

fn labels(labels: Labels, names: &mut Interner) -> Box<[(Arc<str>, Arc<str>)]> {
    labels.iter().map(|(key, value)| (names.share(key), names.share(value.as_deref().unwrap_or("")))).collect()
}

fn is_serving(status: &PodStatus) -> bool {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let is_ready = |condition: &crate::read::schema::PodCondition| condition.r#type.as_deref() == Some("Ready");
    match conditions.iter().find(|condition| is_ready(condition)) {
        Some(condition) => condition.status.as_deref() == Some("True"),
        None => conditions.is_empty(),
    }
}

fn addresses(status: &PodStatus) -> Result<Box<[IpAddr]>, Flaw> {
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return Ok([].into());
    }
    let many = status.pod_ips.iter().flatten().enumerate();
    let many = many.map(|(index, pod)| (format!("status.podIPs[{index}].ip"), pod.ip.as_deref()));
    let single = std::iter::once(("status.podIP".to_owned(), status.pod_ip.as_deref()));
    let given = |(path, ip): (String, Option<&str>)| Some((path, ip.filter(|ip| !ip.is_empty())?.to_owned()));
    let mut addresses: Vec<(String, String)> = many.filter_map(given).collect();
    if addresses.is_empty() {
        addresses.extend(single.filter_map(given));
    }
    addresses.into_iter().map(|(path, text)| check::usable_address(&text, || path.clone())).collect()
}

/// Named ports of the containers, then of the init containers that keep running beside them.
fn ports(spec: &PodSpec, names: &mut Interner) -> Result<Box<[NamedPort]>, Flaw> {
    let mut ports = Vec::new();
    for (index, container) in spec.containers.iter().flatten().enumerate() {
        add_ports(container, &format!("spec.containers[{index}]"), names, &mut ports)?;
    }
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        if container.restart_policy.as_deref() == Some("Always") {
            add_ports(container, &format!("spec.initContainers[{index}]"), names, &mut ports)?;
        }
    }
    Ok(ports.into())
}

fn add_ports(container: &Container, path: &str, names: &mut Interner, ports: &mut Vec<NamedPort>) -> Result<(), Flaw> {
    for (index, port) in container.ports.iter().flatten().enumerate() {
        let path = format!("{path}.ports[{index}]");
        ports.extend(named_port(port, &path, names)?);
    }
    Ok(())
}

fn named_port(document: &ContainerPort, path: &str, names: &mut Interner) -> Result<Option<NamedPort>, Flaw> {
    let Some(name) = document.name.as_deref().filter(|name| !name.is_empty()) else { return Ok(None) };
    let number = document.container_port.as_ref();
    let number = number.ok_or_else(|| Flaw::new(format!("{path}.containerPort"), "a port is required"))?;
    Ok(Some(NamedPort {
        name: names.share(name),
        protocol: check::protocol(document.protocol.as_deref(), || format!("{path}.protocol"))?,
        port: check::port_number(number, || format!("{path}.containerPort"))?,
    }))
}
