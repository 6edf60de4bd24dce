//! Server-side search path: follows the search list of a client, so that the client does not send a query for each
//! suffix.
//!
//! With `ndots:5`, a pod that looks up `example.org` first queries `example.org.<namespace>.svc.<zone>`, then two or
//! more other names, each twice, before it queries the name itself. The first of these queries is answered with the
//! records of the last, behind a CNAME.

use std::sync::Arc;

use super::attempt::{Attempt, Step, done};
use super::config::Autopath;
use crate::answer::{Outcome, answer};
use crate::metrics::count;
use crate::wire::{Labels, Name, Rcode};
use crate::zone::Zone;

impl Attempt<'_> {
    /// `None` if the name does not come from a search list, or no entry of the list resolves.
    pub(super) fn search(&self, zone: &Zone, out: &mut Vec<u8>) -> Option<Step> {
        let (searched, host) = self.searched(zone)?;
        for name in self.candidates(zone, &searched, host) {
            match self.try_candidate(zone, &name, out) {
                Some(Step::Done(Rcode::NX_DOMAIN)) => {}
                Some(step) => {
                    if matches!(step, Step::Done(_)) {
                        count(&self.metrics.autopath);
                    }
                    return Some(step);
                }
                None => return None,
            }
        }
        None
    }

    /// The name that the client searches, and the suffixes of the host.
    fn searched(&self, zone: &Zone) -> Option<(Vec<u8>, &[Name])> {
        let (is_known, host) = match &self.config.autopath {
            Autopath::Off => return None,
            Autopath::Pods(host) => (true, host),
            Autopath::AnyClient(host) => (false, host),
        };
        let apex = zone.config().zones.iter().find(|apex| self.query.name.is_within(apex))?;
        let labels: Vec<&[u8]> = Labels::of(self.query.name.before(apex)?).collect();
        let [searched @ .., namespace, b"svc"] = &labels[..] else { return None };
        let is_asker = |known: &Arc<str>| known.as_bytes() == *namespace;
        let is_own = !is_known || zone.namespaces_of(self.client.address.ip()).any(is_asker);
        (is_own && !searched.is_empty()).then(|| (with_lengths(searched), &host[..]))
    }

    /// In the order of the search list. The client has queried the first entry itself.
    fn candidates(&self, zone: &Zone, searched: &[u8], host: &[Name]) -> Vec<Name> {
        let apex = zone.config().zones.first().copied().unwrap_or(Name::ROOT);
        let services = Name::from_labels([&b"svc"[..]], &apex).unwrap_or(apex);
        let suffixes = [services, apex].into_iter().chain(host.iter().copied()).chain([Name::ROOT]);
        suffixes.filter_map(|suffix| Name::from_labels(Labels::of(searched), &suffix).ok()).collect()
    }

    /// `None` if there is no upstream for the name.
    fn try_candidate(&self, zone: &Zone, name: &Name, out: &mut Vec<u8>) -> Option<Step> {
        let mut builder = self.builder(out);
        self.write_cname(name, &mut builder);
        match answer(zone, name, self.query.kind, self.turn, &mut builder) {
            Outcome::Done => return Some(done(builder)),
            Outcome::Alias(target) => return Some(self.alias(&target, builder)),
            Outcome::Forward => {}
        }
        if !self.forwarder?.has_route(name) {
            return None;
        }
        let Some(hit) = self.lookup(name) else { return Some(Step::Forward(Box::new(*name))) };
        let mut builder = self.builder(out);
        self.write_cname(name, &mut builder);
        self.write(&hit, &mut builder);
        Some(done(builder))
    }
}

fn with_lengths(labels: &[&[u8]]) -> Vec<u8> {
    labels.iter().flat_map(|label| [&[label.len() as u8][..], label].concat()).collect()
}
