//! Static names, as in `/etc/hosts`. They take precedence over everything else.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::wire::{Builder, Data, Name, Section, kind};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    addresses: HashMap<Name, Vec<IpAddr>>,
    pub ttl: u32,
}

impl Default for Hosts {
    fn default() -> Self {
        Self { addresses: HashMap::new(), ttl: 3600 }
    }
}

impl Hosts {
    /// Adds the entries of a text in the format of `/etc/hosts`; invalid lines are skipped, as is usual for that
    /// file.
    pub fn read(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse().ok()) else { continue };
            words.for_each(|name| self.add(name, address));
        }
    }

    pub fn add(&mut self, name: &str, address: IpAddr) {
        let Ok(name) = Name::from_text(name) else { return };
        let addresses = self.addresses.entry(name).or_default();
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns whether the name has an entry. If it has none of the requested type, the answer has no records.
    pub fn answer(&self, name: &Name, kind: u16, builder: &mut Builder<'_>) -> bool {
        let Some(addresses) = self.addresses.get(name) else { return false };
        for address in addresses {
            match address {
                IpAddr::V4(it) if kind == kind::A => self.record(name, kind, &it.octets(), builder),
                IpAddr::V6(it) if kind == kind::AAAA => self.record(name, kind, &it.octets(), builder),
                _ => {}
            }
        }
        true
    }

    fn record(&self, name: &Name, kind: u16, octets: &[u8], builder: &mut Builder<'_>) {
        builder.record(Section::Answer, name.as_bytes(), kind, self.ttl, Data::Raw(octets));
    }
}
