//! Endpoints of a manifest, for Services without a selector.

use super::context::{Context, Flaw};
use super::identity::{hostname, node_name};
use super::{check, slice};
use crate::intern::Interner;
use crate::object::{Subset, SubsetAddress};
use crate::spec::{self, EndpointPort, Endpoints};

pub(crate) fn convert(object: Endpoints, context: &mut Context<'_>) -> Result<Box<[Subset]>, Flaw> {
    if object.metadata.label("endpointslice.kubernetes.io/skip-mirror") == Some("true") {
        return Ok([].into());
    }
    object.subsets.into_iter().enumerate().map(|(index, given)| subset(given, index, context)).collect()
}

fn subset(given: spec::Subset, index: usize, context: &mut Context<'_>) -> Result<Subset, Flaw> {
    let path = format!("subsets[{index}]");
    let mut addresses = Vec::new();
    add_addresses(&given.addresses, &format!("{path}.addresses"), true, context.names, &mut addresses)?;
    let not_ready = &given.not_ready_addresses;
    add_addresses(not_ready, &format!("{path}.notReadyAddresses"), false, context.names, &mut addresses)?;
    let ports: Vec<EndpointPort> = given.ports.into_iter().map(EndpointPort::from).collect();
    let ports = slice::ports(&ports, &format!("{path}.ports"), context)?;
    Ok(Subset { ports, addresses: addresses.into() })
}

fn add_addresses(
    given: &[spec::SubsetAddress],
    path: &str,
    ready: bool,
    names: &mut Interner,
    addresses: &mut Vec<SubsetAddress>,
) -> Result<(), Flaw> {
    for (index, given) in given.iter().enumerate() {
        let field = |field: &str| format!("{path}[{index}].{field}");
        addresses.push(SubsetAddress {
            address: check::usable_address(&given.ip, || field("ip"))?,
            ready,
            node: node_name(&given.node_name, names, || field("nodeName"))?,
            hostname: hostname(&given.hostname, || field("hostname"))?,
        });
    }
    Ok(())
}
