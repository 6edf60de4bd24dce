//! Answers from the zone: zone and question in, records out. Pure and total.

mod addresses;
mod authority;
mod pointers;
mod services;

use crate::wire::{Builder, Data, Name, Rcode, Section, flag, kind};
use crate::zone::{Entry, Place, Zone};

/// What remains to be done after the records of the zone are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The answer is complete.
    Done,
    /// The name is not ours, or does not exist here and unknown names are forwarded.
    Forward,
    /// The name is an alias: the records of its target must be resolved.
    Alias(Box<Name>),
}

/// An alias may lead to an alias; a longer chain is a loop.
const MAX_ALIASES: usize = 8;
/// The version of the specification that the names follow, and its TTL.
const VERSION: &[u8] = b"\x051.1.0";
const VERSION_TTL: u32 = 28_800;

/// Follows aliases as long as they stay in our zones. `turn` is a number that differs between queries, by which the
/// addresses of headless Services rotate.
pub fn answer(zone: &Zone, name: &Name, kind: u16, turn: u32, builder: &mut Builder<'_>) -> Outcome {
    let mut outcome = answer_one(zone, name, kind, turn, builder);
    for _ in 0..MAX_ALIASES {
        let Outcome::Alias(target) = outcome else { return outcome };
        if zone.place(&target).is_none() || kind == kind::CNAME {
            return Outcome::Alias(target);
        }
        outcome = match answer_one(zone, &target, kind, turn, builder) {
            Outcome::Forward => return Outcome::Alias(target),
            next => next,
        };
    }
    builder.rcode(Rcode::SERVER_FAILURE);
    Outcome::Done
}

fn answer_one(zone: &Zone, name: &Name, kind: u16, turn: u32, builder: &mut Builder<'_>) -> Outcome {
    let Some((apex, place)) = zone.place(name) else { return Outcome::Forward };
    let question = Question { zone, apex, name, kind, turn };
    builder.set(flag::AUTHORITATIVE);
    question.answer(&place, builder)
}

/// One name in one of our zones.
struct Question<'a> {
    zone: &'a Zone,
    apex: &'a Name,
    name: &'a Name,
    kind: u16,
    turn: u32,
}

impl Question<'_> {
    fn answer(&self, place: &Place<'_>, builder: &mut Builder<'_>) -> Outcome {
        match place {
            Place::Service(entry) if entry.is_external() => self.alias(entry, builder),
            Place::Reverse(address) => self.pointers(*address, builder),
            Place::Nothing => self.deny(builder),
            place if !self.exists(place) => self.deny(builder),
            place => {
                self.records(place, builder);
                self.complete(builder)
            }
        }
    }

    /// Whether the name has records of any type, or names below it.
    fn exists(&self, place: &Place<'_>) -> bool {
        match place {
            Place::Service(entry) => self.is_reachable(entry),
            Place::Port { entry, port, protocol } => self.is_reachable(entry) && entry.has_port(port, *protocol),
            Place::Endpoint { entry, label } => entry.targets().find(label).is_some(),
            _ => true,
        }
    }

    /// A Service with a ClusterIP always exists; a headless Service exists by its endpoints.
    fn is_reachable(&self, entry: &Entry) -> bool {
        if entry.is_headless() {
            return !entry.endpoints.v4.is_empty() || !entry.endpoints.v6.is_empty();
        }
        !self.zone.config().ignore_empty || entry.ready().next().is_some()
    }

    fn records(&self, place: &Place<'_>, builder: &mut Builder<'_>) {
        match (self.kind, place) {
            (kind::A | kind::AAAA, place) => self.addresses(place, builder),
            (kind::SRV, place) => self.services(place, builder),
            (kind::TXT, Place::Version) => {
                self.record(kind::TXT, VERSION_TTL, Data::Raw(VERSION), builder);
            }
            (kind::SOA, Place::Apex) => self.start_of_authority(Section::Answer, builder),
            (kind::NS, Place::Apex) => self.name_servers(builder),
            _ => {}
        }
    }

    fn record(&self, kind: u16, ttl: u32, data: Data<'_>, builder: &mut Builder<'_>) -> bool {
        builder.record(Section::Answer, self.name.as_bytes(), kind, ttl, data)
    }

    /// An answer without records carries the SOA record, for negative caching.
    fn complete(&self, builder: &mut Builder<'_>) -> Outcome {
        if builder.n_answers() == 0 && !builder.is_truncated() {
            self.start_of_authority(Section::Authority, builder);
        }
        Outcome::Done
    }

    fn deny(&self, builder: &mut Builder<'_>) -> Outcome {
        let config = self.zone.config();
        let is_reverse = !config.zones.contains(self.apex);
        if if is_reverse { config.pass_unknown_addresses } else { config.pass_unknown_names } {
            return Outcome::Forward;
        }
        self.start_of_authority(Section::Authority, builder);
        builder.rcode(Rcode::NX_DOMAIN);
        Outcome::Done
    }

    /// An ExternalName Service is an alias for every type but SRV, which it never has.
    fn alias(&self, entry: &Entry, builder: &mut Builder<'_>) -> Outcome {
        let Some(target) = entry.alias().and_then(|target| Name::from_text(target).ok()) else {
            return self.deny(builder);
        };
        if self.kind == kind::SRV {
            return self.complete(builder);
        }
        self.record(kind::CNAME, self.zone.config().ttl, Data::from(&target), builder);
        Outcome::Alias(Box::new(target))
    }
}
