//! Endpoints written by hand, for Services without a selector.

use super::slice;
use super::{Context, Flaw, check, hostname, node_name};
use crate::intern::Interner;
use crate::object::{Object, ObjectId, Subset, SubsetAddress};
use crate::read::schema;

pub(super) fn convert(
    document: schema::EndpointsDocument,
    context: &mut Context<'_>,
    _: &ObjectId,
) -> Result<Object, Flaw> {
    let metadata = document.metadata.unwrap_or_default();
    if metadata.label("endpointslice.kubernetes.io/skip-mirror") == Some("true") {
        return Ok(Object::Endpoints([].into()));
    }
    let subsets = document.subsets.unwrap_or_default();
    let subsets = subsets.iter().enumerate().map(|(index, document)| subset(document, index, context.names));
    Ok(Object::Endpoints(subsets.collect::<Result<_, _>>()?))
}

fn subset(document: &schema::Subset, index: usize, names: &mut Interner) -> Result<Subset, Flaw> {
    let path = format!("subsets[{index}]");
    let mut addresses = Vec::new();
    add_addresses(document.addresses.as_deref(), &format!("{path}.addresses"), true, names, &mut addresses)?;
    let not_ready = document.not_ready_addresses.as_deref();
    add_addresses(not_ready, &format!("{path}.notReadyAddresses"), false, names, &mut addresses)?;
    let ports = document.ports.as_deref().unwrap_or_default();
    let ports = slice::ports(ports, &format!("{path}.ports"), names)?;
    Ok(Subset { ports, addresses: addresses.into() })
}

fn add_addresses(
    documents: Option<&[schema::SubsetAddress]>,
    path: &str,
    ready: bool,
    names: &mut Interner,
    addresses: &mut Vec<SubsetAddress>,
) -> Result<(), Flaw> {
    for (index, document) in documents.unwrap_or_default().iter().enumerate() {
        let field = |field: &str| format!("{path}[{index}].{field}");
        addresses.push(SubsetAddress {
            address: check::usable_address(document.ip.as_deref().unwrap_or(""), || field("ip"))?,
            ready,
            node: node_name(document.node_name.as_deref(), names, || field("nodeName"))?,
            hostname: hostname(document.hostname.as_deref(), || field("hostname"))?,
        });
    }
    Ok(())
}
