//! Tables of service proxies in nf_tables: our own, and that of kube-proxy's nftables mode.

use std::fmt;

use portolan_kernel::nftables::{Batch, Nftables as Handle};
use portolan_model::Family;

use super::NAME;
use crate::nft::{TABLE, cleanup};
use crate::place::{Connections, Found, Outcome, Owned, Place, RemovalError, Report, Users};

/// The table of kube-proxy's nftables mode, in both families.
const KUBE_PROXY: &str = "kube-proxy";
/// Its maps from addresses to verdicts.
const KUBE_PROXY_MAPS: [&str; 2] = ["service-ips", "no-endpoint-services"];
/// The map of our own table that has an element for each frontend.
const OWN_MAPS: [&str; 1] = ["services"];

/// One table of one family.
pub(super) struct ProxyTable {
    family: Family,
    users: Users,
}

impl ProxyTable {
    pub(super) fn places() -> Vec<Box<dyn Place>> {
        let each = [Users::KubeProxy, Users::Portolan].into_iter();
        let each = each.flat_map(|users| Family::BOTH.map(|family| Self { family, users }));
        each.map(|place| Box::new(place) as Box<dyn Place>).collect()
    }

    fn name(&self) -> &'static str {
        if self.users == Users::Portolan { TABLE } else { KUBE_PROXY }
    }

    fn maps(&self) -> &'static [&'static str] {
        if self.users == Users::Portolan { &OWN_MAPS } else { &KUBE_PROXY_MAPS }
    }

    fn exists(&self, handle: &mut Handle) -> Outcome<bool> {
        let tables = handle.tables(self.family).map_err(|error| self.failure("reading", error))?;
        Ok(tables.iter().any(|name| name == self.name()))
    }

    fn has_services(&self, handle: &mut Handle) -> Outcome<bool> {
        let mut any = false;
        for map in self.maps() {
            handle
                .elements(self.family, self.name(), map, &mut |_| any = true)
                .map_err(|error| self.failure("reading", error))?;
        }
        Ok(any)
    }

    fn failure(&self, attempted: &str, error: impl fmt::Display) -> RemovalError {
        RemovalError::new(format!("{attempted} {self}"), error)
    }
}

impl fmt::Display for ProxyTable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "table {} {}", self.family.nft_name(), self.name())
    }
}

impl Place for ProxyTable {
    fn mode(&self) -> &'static str {
        NAME
    }

    fn users(&self) -> Users {
        self.users
    }

    fn find(&self, owned: Option<&Owned>) -> Outcome<Option<Found>> {
        let mut handle = Handle::open().map_err(|error| self.failure("reading", error))?;
        let is_active = self.users == Users::Portolan && owned.is_some_and(|owned| owned.table);
        if is_active || !self.exists(&mut handle)? {
            return Ok(None);
        }
        Ok(Found::new(1, self.has_services(&mut handle)?))
    }

    fn is_ours(&self) -> Outcome<bool> {
        let mut handle = Handle::open().map_err(|error| self.failure("reading", error))?;
        Ok(self.users == Users::Portolan && self.exists(&mut handle)?)
    }

    fn remove(&self, _: Option<&Owned>, _: Connections, report: &mut Report) -> Outcome<()> {
        let mut handle = Handle::open().map_err(|error| self.failure("removing", error))?;
        let removed = match self.users {
            Users::Portolan => cleanup::remove_table(&mut handle, self.family),
            _ => remove_kube_proxys(&mut handle, self.family),
        };
        removed.map_err(|error| self.failure("removing", error))?;
        report.removed.push(self.to_string());
        Ok(())
    }

    fn serves(&self, family: Family) -> bool {
        self.family == family
    }
}

/// A table that another transaction deleted first is gone all the same.
fn remove_kube_proxys(handle: &mut Handle, family: Family) -> Result<(), crate::Error> {
    let mut batch = Batch::new();
    batch.delete_table(family, KUBE_PROXY);
    match handle.commit(batch) {
        Err(error) if error.is_absent() => Ok(()),
        outcome => Ok(outcome?),
    }
}
