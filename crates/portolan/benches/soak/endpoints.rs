//! The endpoints of each Service as the API server has them, and when the last ones went.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::stage::endpoint_address;

/// Addresses of a Service: this many are in use at a time, of those that it can have.
pub(crate) const IN_USE: u32 = 3;
pub(crate) const POSSIBLE: u32 = 8;

/// The first endpoint of each Service stays; the others move on.
pub(crate) const STAYING: u32 = 0;

#[derive(Default)]
pub(crate) struct Endpoints(Mutex<BTreeMap<u32, Used>>);

struct Used {
    indexes: Vec<u32>,
    gone: BTreeMap<u32, Instant>,
}

impl Endpoints {
    /// Replaces one endpoint, not the first. Returns all that are in use then.
    pub(crate) fn move_on(&self, service: u32) -> Vec<Ipv4Addr> {
        let mut services = self.0.lock().expect("no thread panics with it");
        let used =
            services.entry(service).or_insert_with(|| Used { indexes: (0..IN_USE).collect(), gone: BTreeMap::new() });
        let old = used.indexes.remove(1);
        let last = used.indexes.last().copied().unwrap_or(old);
        // Through all possible addresses but the one that stays, so that one comes back late.
        let new = 1 + last % (POSSIBLE - 1);
        used.indexes.push(new);
        used.gone.remove(&new);
        used.gone.insert(old, Instant::now());
        used.indexes.iter().map(|index| endpoint_address(service, *index)).collect()
    }

    /// Whether the address has not been an endpoint of the Service for that long.
    pub(crate) fn is_gone_for(&self, service: u32, address: Ipv4Addr, time: Duration) -> bool {
        let services = self.0.lock().expect("no thread panics with it");
        let Some(used) = services.get(&service) else { return false };
        let index = u32::from(address) - u32::from(endpoint_address(service, 0));
        used.gone.get(&index).is_some_and(|gone| gone.elapsed() > time)
    }
}
