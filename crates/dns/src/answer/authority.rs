//! SOA and NS records: the authority for a zone.

use std::net::IpAddr;

use super::Question;
use crate::wire::{Builder, Data, Name, Section, kind};

/// Timers for secondary servers, in seconds: refresh, retry, expire.
const REFRESH: u32 = 7200;
const RETRY: u32 = 1800;
const EXPIRE: u32 = 86_400;
const MAX_TTL: u32 = 300;

impl Question<'_> {
    pub(super) fn start_of_authority(&self, section: Section, builder: &mut Builder<'_>) {
        let Some((server, person)) = self.own_name().zip(Name::from_labels([&b"hostmaster"[..]], self.apex).ok())
        else {
            return;
        };
        let ttl = self.zone.config().ttl;
        let mut data = [server.as_bytes(), person.as_bytes()].concat();
        for number in [self.zone.serial, REFRESH, RETRY, EXPIRE, ttl] {
            data.extend_from_slice(&number.to_be_bytes());
        }
        builder.record(section, self.apex.as_bytes(), kind::SOA, ttl.min(MAX_TTL), Data::Raw(&data));
    }

    fn own_name(&self) -> Option<Name> {
        Name::from_labels([&b"ns"[..], b"dns"], self.apex).ok()
    }

    /// The Services that lead to this server; without any, a name with the server's own addresses.
    pub(super) fn name_servers(&self, builder: &mut Builder<'_>) {
        let servers = self.servers();
        let mut names: Vec<&Name> = servers.iter().map(|(name, _)| name).collect();
        names.dedup();
        for name in names {
            self.record(kind::NS, self.zone.config().ttl, Data::from(name), builder);
        }
        for (name, address) in &servers {
            self.additional(name, *address, builder);
        }
    }

    fn servers(&self) -> Vec<(Name, IpAddr)> {
        let own = &self.zone.config().own_addresses;
        let mut servers = Vec::new();
        for entry in own.iter().flat_map(|address| self.zone.by_endpoint(*address)) {
            let name = self.zone.name_of(&entry.service.name, self.apex);
            let reached = if entry.is_headless() { own } else { &*entry.service.cluster_ips };
            servers.extend(name.iter().flat_map(|name| reached.iter().map(|address| (*name, *address))));
        }
        if servers.is_empty() {
            servers.extend(self.own_name().iter().flat_map(|name| own.iter().map(|address| (*name, *address))));
        }
        servers.sort_unstable_by(|one, other| (one.0.as_bytes(), one.1).cmp(&(other.0.as_bytes(), other.1)));
        servers.dedup();
        servers
    }
}
