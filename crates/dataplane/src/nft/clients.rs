//! Elements that packets add and remove on their own: the clients of session affinity, and counters.

use std::collections::HashSet;
use std::net::SocketAddr;

use portolan_kernel::nftables::{Batch, Element, ElementData};
use portolan_model::Family;
use portolan_plan::{Pool, ServicePlan};

use super::TABLE;
use super::affinity::{clients_map, used_pools};
use super::apply::NftablesKernel;
use super::codec::decode_endpoint;
use super::objects::Value;
use crate::Error;

/// Elements that one transaction deletes: some ten milliseconds of the kernel's time.
const DELETED_TOGETHER: usize = 8192;

impl NftablesKernel {
    /// Deletes the clients whose endpoint is in the pool no longer. Returns how many clients were read.
    pub(super) fn forget_clients_of(&mut self, service: &ServicePlan) -> Result<usize, Error> {
        let mut read = 0;
        for pool in used_pools(service) {
            read += self.forget_clients_in(service, pool)?;
        }
        Ok(read)
    }

    fn forget_clients_in(&mut self, service: &ServicePlan, pool: Pool) -> Result<usize, Error> {
        let (family, map) = (service.key.family, clients_map(&service.key, pool));
        let kept: HashSet<SocketAddr> = service.pool(pool).iter().map(|endpoint| endpoint.socket()).collect();
        let (mut read, mut stale) = (0, Vec::new());
        self.handle().elements(family, TABLE, &map, &mut |element| {
            read += 1;
            if endpoint(family, &element).is_none_or(|endpoint| !kept.contains(&endpoint)) {
                stale.push(element);
            }
        })?;
        self.delete_present(family, &map, &stale)?;
        Ok(read)
    }

    /// Deletes these elements, as far as they still exist. One that has timed out since it was read makes the kernel refuse
    /// a whole transaction, unless it knows deletions that ignore this.
    pub(super) fn delete_present(&mut self, family: Family, set: &str, elements: &[Element]) -> Result<(), Error> {
        elements.chunks(DELETED_TOGETHER).try_for_each(|chunk| self.delete_chunk(family, set, chunk))
    }

    fn delete_chunk(&mut self, family: Family, set: &str, elements: &[Element]) -> Result<(), Error> {
        if self.can_destroy {
            let mut batch = Batch::new();
            batch.destroy_elements(family, TABLE, set, elements.iter());
            match self.commit(batch) {
                Err(Error::Kernel(error)) if error.is_unknown_message() => self.can_destroy = false,
                other => return other,
            }
        }
        self.delete_by_halves(family, set, elements)
    }

    /// Finds the elements that do not exist by halving what the kernel refuses.
    fn delete_by_halves(&mut self, family: Family, set: &str, elements: &[Element]) -> Result<(), Error> {
        let mut batch = Batch::new();
        batch.delete_elements(family, TABLE, set, elements.iter());
        match self.commit(batch) {
            Err(Error::Kernel(error)) if error.is_absent() && elements.len() > 1 => {
                let (front, back) = elements.split_at(elements.len() / 2);
                self.delete_by_halves(family, set, front)?;
                self.delete_by_halves(family, set, back)
            }
            Err(Error::Kernel(error)) if error.is_absent() => Ok(()),
            other => other,
        }
    }
}

fn endpoint(family: Family, element: &Element) -> Option<SocketAddr> {
    let ElementData::Value(data) = &element.data else { return None };
    match decode_endpoint(family, data) {
        Value::Endpoint(address, port) => Some(SocketAddr::new(address, port)),
        _ => None,
    }
}
