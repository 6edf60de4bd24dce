//! Endpoints of a manifest, for Services without a selector.

use super::context::{Context, Flaw};
use super::identity::{hostname, node_name, pod_name};
use super::{check, slice};
use crate::intern::Interner;
use crate::object::{Subset, SubsetAddress};
use crate::spec::{self, EndpointPort, Endpoints};

pub(crate) fn convert(object: Endpoints, namespace: &str, context: &mut Context<'_>) -> Result<Box<[Subset]>, Flaw> {
    if object.metadata.label("endpointslice.kubernetes.io/skip-mirror") == Some("true") {
        return Ok([].into());
    }
    object.subsets.into_iter().enumerate().map(|(index, given)| subset(given, index, namespace, context)).collect()
}

fn subset(given: spec::Subset, index: usize, namespace: &str, context: &mut Context<'_>) -> Result<Subset, Flaw> {
    let path = format!("subsets[{index}]");
    let ready = Common { path: format!("{path}.addresses"), ready: true, namespace };
    let not_ready = Common { path: format!("{path}.notReadyAddresses"), ready: false, namespace };
    let mut addresses = Vec::new();
    add_addresses(&given.addresses, &ready, context.names, &mut addresses)?;
    add_addresses(&given.not_ready_addresses, &not_ready, context.names, &mut addresses)?;
    let ports: Vec<EndpointPort> = given.ports.into_iter().map(EndpointPort::from).collect();
    let ports = slice::ports(&ports, &format!("{path}.ports"), context)?;
    Ok(Subset { ports, addresses: addresses.into() })
}

/// What the addresses of one list have in common.
struct Common<'a> {
    path: String,
    ready: bool,
    namespace: &'a str,
}

fn add_addresses(
    given: &[spec::SubsetAddress],
    common: &Common<'_>,
    names: &mut Interner,
    addresses: &mut Vec<SubsetAddress>,
) -> Result<(), Flaw> {
    for (index, given) in given.iter().enumerate() {
        let field = |field: &str| format!("{}[{index}].{field}", common.path);
        addresses.push(SubsetAddress {
            address: check::usable_address(&given.ip, || field("ip"))?,
            ready: common.ready,
            node: node_name(&given.node_name, names, || field("nodeName"))?,
            hostname: hostname(&given.hostname, || field("hostname"))?,
            pod: pod_name(given.target_ref.as_ref(), common.namespace),
        });
    }
    Ok(())
}
