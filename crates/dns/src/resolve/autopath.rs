//! Walking a client's search list for it, so that it need not ask a question for each suffix.
//!
//! With `ndots:5`, a pod that looks up `example.org` asks for `example.org.<namespace>.svc.<zone>` first, then for two
//! or more others, each twice, before it asks for the name itself. Whoever asks the first of these gets the answer to
//! the last, behind an alias.

use std::sync::Arc;

use super::attempt::{Attempt, Step, done};
use crate::answer::{Outcome, answer};
use crate::metrics::count;
use crate::wire::{Labels, Name, Rcode};
use crate::zone::Zone;

/// For whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Autopath {
    #[default]
    Off,
    /// For pods that are known by their address, in their own namespace; then these suffixes of the host.
    Pods(Vec<Name>),
    /// For whoever asks in the form of a search list. Only somebody who asks so by hand could tell.
    AnyClient(Vec<Name>),
}

impl Attempt<'_> {
    /// `None` if the name is not from a search list, or no entry of the list leads anywhere.
    pub(super) fn search(&self, zone: &Zone, out: &mut Vec<u8>) -> Option<Step> {
        let (searched, host) = self.searched(zone)?;
        for name in self.candidates(zone, &searched, host) {
            match self.try_candidate(zone, &name, out) {
                Some(Step::Done(Rcode::NX_DOMAIN)) => {}
                Some(step) => {
                    if matches!(step, Step::Done(_)) {
                        count(&self.resolver.metrics.autopath);
                    }
                    return Some(step);
                }
                None => return None,
            }
        }
        None
    }

    /// What the client is really looking for, and the host's suffixes.
    fn searched(&self, zone: &Zone) -> Option<(Vec<u8>, &[Name])> {
        let (is_known, host) = match &self.resolver.config.autopath {
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

    /// In the order of the search list, the first of which the client has asked for itself.
    fn candidates(&self, zone: &Zone, searched: &[u8], host: &[Name]) -> Vec<Name> {
        let apex = zone.config().zones.first().copied().unwrap_or(Name::ROOT);
        let services = Name::from_labels([&b"svc"[..]], &apex).unwrap_or(apex);
        let suffixes = [services, apex].into_iter().chain(host.iter().copied()).chain([Name::ROOT]);
        suffixes.filter_map(|suffix| Name::from_labels(Labels::of(searched), &suffix).ok()).collect()
    }

    /// `None` if nobody can be asked.
    fn try_candidate(&self, zone: &Zone, name: &Name, out: &mut Vec<u8>) -> Option<Step> {
        let mut builder = self.builder(out);
        self.leads_to(name, &mut builder);
        match answer(zone, name, self.query.kind, self.turn, &mut builder) {
            Outcome::Done => return Some(done(builder)),
            Outcome::Alias(target) => return Some(self.alias(&target, builder)),
            Outcome::Forward => {}
        }
        if !self.resolver.forwarder.as_ref()?.has_route(name) {
            return None;
        }
        let Some(hit) = self.lookup(name) else { return Some(Step::Forward(Box::new(*name))) };
        let mut builder = self.builder(out);
        self.leads_to(name, &mut builder);
        self.write(&hit, &mut builder);
        Some(done(builder))
    }
}

fn with_lengths(labels: &[&[u8]]) -> Vec<u8> {
    labels.iter().flat_map(|label| [&[label.len() as u8][..], label].concat()).collect()
}
