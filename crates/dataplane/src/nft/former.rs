//! Session affinity of an earlier version, which had one map for all Services: its clients are adopted.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use portolan_kernel::nftables::{Batch, ElementData, Nftables as Handle, TimedElement};
use portolan_model::Family;
use portolan_plan::Plan;

use super::affinity::{clients_map, used_pools};
use super::bytes::{Reader, octets};
use super::codec::decode_endpoint;
use super::objects::{Key, Value};
use super::{Nftables, TABLE};
use crate::{Change, Error};

/// The map from client, address, protocol and port to the endpoint.
const FORMER_MAP: &str = "affinity";

/// Elements by their new maps.
pub(super) type Adopted = BTreeMap<(Family, Arc<str>), Vec<TimedElement>>;

pub(super) fn has_former_clients(objects: &[(Key, Value)]) -> bool {
    objects.iter().any(|(key, _)| matches!(key, Key::Set(_, name) if **name == *FORMER_MAP))
}

/// Reads the clients of the former map, sorted by the maps that they belong to by this plan.
pub(super) fn former_clients(handle: &mut Handle, family: Family, plan: &Plan) -> Result<Adopted, Error> {
    let mut adopted = Adopted::new();
    let mut known = HashSet::new();
    for timed in handle.timed_elements(family, TABLE, FORMER_MAP)? {
        for (map, client) in new_places(family, &timed, plan) {
            if known.insert((map.clone(), client.clone())) {
                let mut timed = timed.clone();
                timed.element.key = client;
                adopted.entry((family, map)).or_default().push(timed);
            }
        }
    }
    Ok(adopted)
}

/// The maps that an entry belongs to, each with its new key. A client may have come to several addresses of a Service.
fn new_places(family: Family, timed: &TimedElement, plan: &Plan) -> Vec<(Arc<str>, Vec<u8>)> {
    let find = || {
        let mut reader = Reader { bytes: &timed.element.key, family };
        let (client, address) = (reader.address()?, reader.address()?);
        let (protocol, port) = reader.tail()?;
        let ElementData::Value(data) = &timed.element.data else { return None };
        let Value::Endpoint(endpoint, endpoint_port) = decode_endpoint(family, data) else { return None };
        let service = plan.services.get(&plan.holder(address, port, protocol)?.holder)?;
        let endpoint = SocketAddr::new(endpoint, endpoint_port);
        let holds = |pool: &_| service.pool(*pool).iter().any(|it| it.socket() == endpoint);
        let pools = used_pools(service).filter(|_| service.affinity_seconds.is_some()).filter(holds);
        Some(pools.map(|pool| (clients_map(&service.key, pool), octets(client))).collect())
    };
    find().unwrap_or_default()
}

/// Fills maps that the change creates; others have clients of their own.
pub(super) fn add_adopted(batch: &mut Batch, adopted: &Adopted, change: &Change<Nftables>) {
    for ((family, map), clients) in adopted {
        if change.added.contains_key(&Key::Set(*family, map.clone())) {
            batch.add_timed_elements(*family, TABLE, map, clients.iter());
        }
    }
}
