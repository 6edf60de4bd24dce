//! A change, as calls to HNS: as few as it needs.

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_hns::{Endpoint, Error, ErrorKind, Guid, LoadBalancer};

use super::Kernelspace;
use super::documents;
use super::failures::Refused;
use super::kernel::HnsKernel;
use super::network::Place;
use super::objects::{Balancer, Front, Key, Role, Target, Value};
use crate::Change;
use crate::mode::BalancerCall;

/// The first error; what does not depend on it goes on.
#[derive(Default)]
struct Outcome(Option<Error>);

impl Outcome {
    fn note(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.0.get_or_insert(error);
        }
    }
}

impl HnsKernel {
    pub(super) fn write(&mut self, change: &Change<Kernelspace>) -> Result<(), Error> {
        let mut outcome = Outcome::default();
        let mut replaced = BTreeSet::new();
        for (key, value) in &change.added {
            if let (Key::Endpoint(address), Value::Endpoint(role)) = (key, value) {
                let before = self.held.own(*address);
                outcome.note(self.put_endpoint(*address, role, change.removed.contains_key(key)));
                replaced.extend(before.filter(|_| change.removed.contains_key(key)));
            }
        }
        self.look_for_missing(change, &mut outcome);
        for (front, balancer) in balancers(change) {
            outcome.note(self.put_balancer(front, balancer));
        }
        self.complete(change, &mut outcome);
        outcome.note(self.renew(&replaced));
        for key in change.removed.keys().filter(|key| !change.added.contains_key(key)) {
            outcome.note(self.remove_balancer(key, change));
        }
        // While a load balancer may still name an endpoint, the endpoint stays.
        if outcome.0.is_none() {
            let gone = change.removed.keys().filter(|key| !change.added.contains_key(key));
            gone.for_each(|key| outcome.note(self.remove_endpoint(key)));
        }
        outcome.0.map_or(Ok(()), Err)
    }

    /// An endpoint of this node may have been created since the last look.
    fn look_for_missing(&mut self, change: &Change<Kernelspace>, outcome: &mut Outcome) {
        let is_missing = |target: &Target| self.held.id_of(target).is_none();
        if balancers(change).any(|(_, balancer)| balancer.targets.iter().any(is_missing)) {
            outcome.note(self.refresh_endpoints());
        }
    }

    /// Load balancers that waited for an endpoint which exists now.
    fn complete(&mut self, change: &Change<Kernelspace>, outcome: &mut Outcome) {
        let is_wanted = |front: &Front, balancer: &Balancer| !change.removed.contains_key(&balancer.key(*front));
        let waiting = self.partial.iter().filter(|(front, balancer)| is_wanted(front, balancer));
        let waiting: Vec<(Front, Balancer)> = waiting.map(|(front, balancer)| (*front, balancer.clone())).collect();
        for (front, balancer) in waiting {
            outcome.note(self.put_balancer(&front, &balancer));
        }
    }

    fn put_endpoint(&mut self, address: IpAddr, role: &Role, is_replaced: bool) -> Result<(), Error> {
        if self.held.is_local(address) {
            self.local_instead.insert(address);
            return Ok(());
        }
        match self.held.own(address) {
            Some(old) if is_replaced => self.delete_endpoint(old)?,
            Some(_) => return Ok(()),
            None => {}
        }
        self.create_endpoint(address, role)
    }

    /// On an overlay the network may have learned of a node since the last look.
    fn create_endpoint(&mut self, address: IpAddr, role: &Role) -> Result<(), Error> {
        let mut place = self.place()?;
        if place.is_overlay && *role == Role::Remote && place.subnet(address).is_none() {
            place = Place::read(&mut *self.hns, &self.settings, place.node)?;
            self.place = Some(place.clone());
        }
        let (id, document) =
            (documents::endpoint_id(place.network, address), documents::endpoint(role, address, &place));
        match self.hns.create_endpoint(place.network, id, &document) {
            Ok(()) => self.note_created(id, document, &place),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.refresh_endpoints()?;
                self.held.preferred(address).map(drop).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// The first one is read back, to see whether HNS takes the identity that was chosen.
    fn note_created(&mut self, id: Guid, document: Endpoint, place: &Place) -> Result<(), Error> {
        if self.honours_identities == Some(true) {
            let document = Endpoint { id: Some(id), ..document };
            self.held.add_endpoint(&document, place, self.settings.source_vip);
            return Ok(());
        }
        self.refresh_endpoints()?;
        self.honours_identities = Some(self.held.endpoints().any(|endpoint| endpoint.id == id));
        Ok(())
    }

    fn delete_endpoint(&mut self, id: Guid) -> Result<(), Error> {
        match self.hns.delete_endpoint(id) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => self.held.remove_endpoint(id),
        }
        Ok(())
    }

    fn put_balancer(&mut self, front: &Front, balancer: &Balancer) -> Result<(), Error> {
        let place = self.place()?;
        self.note_partial(front, balancer);
        let held = self.held.balancers.get(front).cloned();
        match (self.document(front, balancer, &place), held) {
            (Some(document), Some(held)) if documents::are_alike(&document, &held) => Ok(()),
            (Some(document), Some(held)) => self.change_balancer(front, &held, document),
            (Some(document), None) => self.create_balancer(front, document),
            (None, Some(held)) => self.delete_balancer(front, &held),
            (None, None) => Ok(()),
        }
    }

    fn note_partial(&mut self, front: &Front, balancer: &Balancer) {
        let missing: Vec<&Target> = balancer.targets.iter().filter(|it| self.held.id_of(it).is_none()).collect();
        if missing.is_empty() {
            self.partial.remove(front);
        } else if self.partial.insert(*front, balancer.clone()).as_ref() != Some(balancer) {
            tracing::warn!(
                "load balancer {front}: HNS has no endpoint for {missing:?}, which gets no traffic until then"
            );
        }
    }

    /// In place, where HNS can do so. Otherwise the front end is without a load balancer for two calls.
    fn change_balancer(&mut self, front: &Front, held: &LoadBalancer, document: LoadBalancer) -> Result<(), Error> {
        let Some(id) = held.id.filter(|_| self.modifies()) else {
            return self.replace_balancer(front, held, document);
        };
        match self.hns.modify_load_balancer(id, &document) {
            Ok(()) => {
                self.held.balancers.insert(*front, LoadBalancer { id: Some(id), ..document });
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotImplemented => {
                self.lacks_modification = true;
                self.replace_balancer(front, held, document)
            }
            Err(error) if error.kind() == ErrorKind::ObjectNotFound => self.create_balancer(front, document),
            Err(error) => Err(self.refused(BalancerCall::Update, front, &document, error)),
        }
    }

    fn replace_balancer(&mut self, front: &Front, held: &LoadBalancer, document: LoadBalancer) -> Result<(), Error> {
        self.delete_balancer(front, held)?;
        self.create_balancer(front, document)
    }

    fn create_balancer(&mut self, front: &Front, document: LoadBalancer) -> Result<(), Error> {
        let id = documents::balancer_id(front);
        if let Err(error) = self.create_alone(front, id, &document) {
            return Err(self.refused(BalancerCall::Create, front, &document, error));
        }
        let id = self.identity_of(front, id)?;
        self.held.balancers.insert(*front, LoadBalancer { id: Some(id), ..document });
        Ok(())
    }

    fn create_alone(&mut self, front: &Front, id: Guid, document: &LoadBalancer) -> Result<(), Error> {
        match self.hns.create_load_balancer(id, document) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.delete_rivals(front, id)?;
                self.hns.create_load_balancer(id, document)
            }
            other => other,
        }
    }

    /// Notes the refusal for the metrics.
    fn refused(&mut self, call: BalancerCall, front: &Front, document: &LoadBalancer, error: Error) -> Error {
        self.refused.push(Refused::new(call, front, document, error.kind()));
        error
    }

    /// The identity of a new load balancer, which is read back until it is known that HNS takes what is chosen.
    fn identity_of(&mut self, front: &Front, chosen: Guid) -> Result<Guid, Error> {
        if self.honours_identities == Some(true) {
            return Ok(chosen);
        }
        let created = self.hns.load_balancers()?.into_iter().find(|it| documents::front(it).as_ref() == Some(front));
        let id = created.and_then(|it| it.id).unwrap_or(chosen);
        self.honours_identities = Some(id == chosen);
        Ok(id)
    }

    /// Another process has made a load balancer for the front end since the last look.
    fn delete_rivals(&mut self, front: &Front, id: Guid) -> Result<(), Error> {
        for rival in self.hns.load_balancers()? {
            let is_rival = documents::front(&rival).as_ref() == Some(front) || rival.id == Some(id);
            if let Some(id) = rival.id.filter(|_| is_rival) {
                self.hns.delete_load_balancer(id)?;
            }
        }
        Ok(())
    }

    fn delete_balancer(&mut self, front: &Front, held: &LoadBalancer) -> Result<(), Error> {
        match held.id.map_or(Ok(()), |id| self.hns.delete_load_balancer(id)) {
            Err(error) if !error.is_not_found() => return Err(self.refused(BalancerCall::Delete, front, held, error)),
            _ => _ = self.held.balancers.remove(front),
        }
        Ok(())
    }

    /// Has load balancers name endpoints again that were deleted and created, whatever HNS made of that.
    fn renew(&mut self, replaced: &BTreeSet<Guid>) -> Result<(), Error> {
        let place = self.place()?;
        let names = |it: &LoadBalancer| it.host_compute_endpoints.iter().any(|id| replaced.contains(id));
        let affected: Vec<(Front, LoadBalancer)> =
            self.held.balancers.iter().filter(|(_, it)| names(it)).map(|(front, it)| (*front, it.clone())).collect();
        for (front, held) in affected {
            let wanted = self.partial.get(&front).cloned();
            let wanted = wanted.or_else(|| self.held.object(&front, &held, &place, &self.settings.root_endpoint));
            let Some(document) = wanted.and_then(|wanted| self.document(&front, &wanted, &place)) else { continue };
            self.change_balancer(&front, &held, document)?;
        }
        Ok(())
    }

    fn remove_balancer(&mut self, key: &Key, change: &Change<Kernelspace>) -> Result<(), Error> {
        match key {
            Key::Balancer(front) | Key::HealthCheck(front) if balancers(change).all(|(other, _)| other != front) => {
                self.partial.remove(front);
                let held = self.held.balancers.get(front).cloned();
                held.map_or(Ok(()), |held| self.delete_balancer(front, &held))
            }
            Key::Stray(stray) if stray.is_balancer => match self.hns.delete_load_balancer(stray.id) {
                Err(error) if !error.is_not_found() => Err(error),
                _ => {
                    self.held.surplus.retain(|it| it != stray);
                    Ok(())
                }
            },
            _ => Ok(()),
        }
    }

    fn remove_endpoint(&mut self, key: &Key) -> Result<(), Error> {
        match key {
            Key::Endpoint(address) => {
                self.local_instead.remove(address);
                self.held.own(*address).map_or(Ok(()), |id| self.delete_endpoint(id))
            }
            Key::Stray(stray) if !stray.is_balancer => self.delete_endpoint(stray.id),
            _ => Ok(()),
        }
    }
}

fn balancers(change: &Change<Kernelspace>) -> impl Iterator<Item = (&Front, &Balancer)> {
    change.added.iter().filter_map(|(key, value)| match (key, value) {
        (Key::Balancer(front) | Key::HealthCheck(front), Value::Balancer(balancer)) => Some((front, balancer)),
        _ => None,
    })
}
