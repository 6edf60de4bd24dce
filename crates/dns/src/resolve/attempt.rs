//! One attempt to answer a query with what is known so far. It never blocks: if a name must be forwarded, it returns
//! the name, and the attempt is repeated when the upstream has answered.

use std::time::Instant;

use super::client::Client;
use super::config::Config;
use crate::answer::{Outcome, answer};
use crate::cache::{Cache, Hit, Key};
use crate::forward::Forwarder;
use crate::metrics::{Metrics, count};
use crate::wire::{Builder, Name, Query, Rcode, Section, flag};
use crate::zone::Zone;

pub(super) enum Step {
    Done(Rcode),
    /// The name must be forwarded first.
    Forward(Box<Name>),
}

pub(super) struct Attempt<'a> {
    pub(super) config: &'a Config,
    pub(super) forwarder: Option<&'a Forwarder>,
    pub(super) cache: &'a Cache,
    pub(super) metrics: &'a Metrics,
    pub(super) zone: Option<&'a Zone>,
    pub(super) query: &'a Query<'a>,
    pub(super) client: Client,
    /// Upstream answers that were obtained for this query already.
    pub(super) known: &'a [(Name, Hit)],
    pub(super) now: Instant,
    pub(super) turn: u32,
    pub(super) limit: usize,
}

impl Attempt<'_> {
    pub(super) fn answer(&self, out: &mut Vec<u8>) -> Step {
        let name = &self.query.name;
        let mut builder = self.builder(out);
        if self.config.hosts.answer(name, self.query.kind, &mut builder) {
            return done(builder);
        }
        let Some(zone) = self.zone else { return self.before_the_first_sync(builder) };
        match answer(zone, name, self.query.kind, self.turn, &mut builder) {
            Outcome::Done if builder.current_rcode() == Rcode::NX_DOMAIN => match self.search(zone, out) {
                Some(step) => step,
                None => self.denied(zone, out),
            },
            Outcome::Done => done(builder),
            Outcome::Forward => self.forward(name, out),
            Outcome::Alias(target) => self.alias(&target, builder),
        }
    }

    pub(super) fn builder<'a>(&self, out: &'a mut Vec<u8>) -> Builder<'a> {
        let mut builder = Builder::new(self.query, self.limit, out);
        if self.forwarder.is_some() {
            builder.set(flag::RECURSION_AVAILABLE);
        }
        builder
    }

    fn denied(&self, zone: &Zone, out: &mut Vec<u8>) -> Step {
        let mut builder = self.builder(out);
        answer(zone, &self.query.name, self.query.kind, self.turn, &mut builder);
        done(builder)
    }

    /// Before the first sync, a name in our zones may well exist: the answer is SERVFAIL, not NXDOMAIN.
    fn before_the_first_sync(&self, mut builder: Builder<'_>) -> Step {
        let config = &self.config.zone;
        let mut own = config.zones.iter().chain(&config.reverse_zones);
        if own.any(|zone| self.query.name.is_within(zone)) {
            builder.rcode(Rcode::SERVER_FAILURE);
            return done(builder);
        }
        self.forward_or_refuse(&self.query.name, builder)
    }

    /// Discards the records that were written so far.
    fn forward(&self, name: &Name, out: &mut Vec<u8>) -> Step {
        self.forward_or_refuse(name, self.builder(out))
    }

    fn forward_or_refuse(&self, name: &Name, mut builder: Builder<'_>) -> Step {
        let has_route = self.forwarder.is_some_and(|forwarder| forwarder.has_route(name));
        if !has_route {
            builder.rcode(Rcode::REFUSED);
            return done(builder);
        }
        match self.lookup(name) {
            None => Step::Forward(Box::new(*name)),
            Some(hit) => {
                self.write(&hit, &mut builder);
                done(builder)
            }
        }
    }

    /// Writes the alias, and the records of its target if there is an upstream for them.
    pub(super) fn alias(&self, target: &Name, mut builder: Builder<'_>) -> Step {
        let has_route = self.forwarder.is_some_and(|forwarder| forwarder.has_route(target));
        if self.query.kind == crate::wire::kind::CNAME || !has_route {
            return done(builder);
        }
        match self.lookup(target) {
            None => Step::Forward(Box::new(*target)),
            Some(hit) => {
                self.write(&hit, &mut builder);
                done(builder)
            }
        }
    }

    pub(super) fn write(&self, hit: &Hit, builder: &mut Builder<'_>) {
        let authentic = hit.reply.flags & flag::AUTHENTIC;
        builder.rcode(hit.reply.rcode()).set(if self.query.wants_dnssec() { authentic } else { 0 });
        hit.reply.write(builder, hit.age, hit.is_stale);
    }

    /// An upstream answer for this query, or a cached one.
    pub(super) fn lookup(&self, name: &Name) -> Option<Hit> {
        if let Some((_, hit)) = self.known.iter().find(|(known, _)| known == name) {
            return Some(hit.clone());
        }
        let hit = self.cache.get(&key(self.query, *name), self.now);
        count(if hit.is_some() { &self.metrics.cache_hits } else { &self.metrics.cache_misses });
        if hit.as_ref().is_some_and(|hit| hit.is_stale) {
            count(&self.metrics.served_stale);
        }
        hit
    }

    pub(super) fn write_cname(&self, target: &Name, builder: &mut Builder<'_>) {
        let ttl = self.config.zone.ttl;
        builder.record(Section::Answer, self.query.name.as_bytes(), crate::wire::kind::CNAME, ttl, target.into());
    }
}

pub(super) fn done(builder: Builder<'_>) -> Step {
    let rcode = builder.current_rcode();
    builder.finish();
    Step::Done(rcode)
}

pub(super) fn key(query: &Query<'_>, name: Name) -> Key {
    let unchecked = query.flags & flag::CHECKING_DISABLED != 0;
    Key { name, kind: query.kind, wants_dnssec: query.wants_dnssec(), unchecked }
}
