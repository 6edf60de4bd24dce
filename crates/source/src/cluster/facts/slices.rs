//! Slices, by the Service that they name. The Service that a slice named before is found by searching its namespace, which
//! is rare and saves an index of all slices.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use portolan_model::{ServiceName, Slice, Slices};

use super::known::Facts;
use super::report::report_omitted;
use crate::convert::context::{Context, Flaw, Reading};
use crate::convert::identity::identify;
use crate::convert::slice;
use crate::object::Kind;
use crate::spec::{EndpointSlice, Metadata};

impl Facts {
    pub(super) fn put_slice(&mut self, object: &EndpointSlice, is_new: bool, now: Instant) -> Result<(), Flaw> {
        let Some((service, slice)) = self.read_slice(object)? else {
            self.remove_slice(&object.metadata, now);
            return Ok(());
        };
        let known = self.position(&service, &slice.name);
        if known.is_none() && !is_new {
            self.drop_anywhere(&service.namespace, &slice.name);
        }
        if known.is_none_or(|index| self.slices[&service].0[index] != slice) {
            let trigger = trigger(&object.metadata).filter(|trigger| *trigger >= self.started);
            let trigger = trigger.map(|trigger| (slice.family, trigger));
            self.insert_slice(service, slice);
            self.changes.slice(now, trigger);
            self.has_changed = true;
        }
        Ok(())
    }

    /// `None` for a slice that belongs to no Service or holds host names.
    pub(super) fn read_slice(&mut self, object: &EndpointSlice) -> Result<Option<(ServiceName, Arc<Slice>)>, Flaw> {
        let id = identify(Kind::EndpointSlice, &object.metadata, &mut self.names)?;
        let mut context = Context::new(Reading::Lenient, &mut self.names);
        let converted = slice::convert(object, &id, &mut context)?;
        report_omitted("EndpointSlice", &object.metadata, &context);
        if converted.service.is_none() && object.address_type != "FQDN" {
            tracing::info!("{id} has no label kubernetes.io/service-name: ignored");
        }
        let service = converted.service.map(|name| ServiceName { namespace: id.namespace, name });
        Ok(service.map(|service| (service, converted.slice)))
    }

    pub(super) fn remove_slice(&mut self, metadata: &Metadata, now: Instant) {
        let label = slice::service_name(metadata, &mut self.names).ok().flatten();
        let named = label.map(|name| ServiceName { namespace: self.names.share(&metadata.namespace), name });
        let owner = named.filter(|service| self.position(service, &metadata.name).is_some());
        let found = match owner {
            Some(service) => self.drop_slice(&service, &metadata.name),
            None => self.drop_anywhere(&metadata.namespace, &metadata.name),
        };
        if found {
            self.changes.slice(now, None);
            self.has_changed = true;
        }
    }

    /// The index of a slice among those of a Service.
    fn position(&self, service: &ServiceName, name: &str) -> Option<usize> {
        self.slices.get(service)?.0.binary_search_by(|slice| (*slice.name).cmp(name)).ok()
    }

    pub(super) fn find_slice(&self, namespace: &str, name: &str) -> Option<(&ServiceName, &Arc<Slice>)> {
        let start = ServiceName::new(namespace, "");
        let nearby = self.slices.range(start..).take_while(|(service, _)| *service.namespace == *namespace);
        let slices = nearby.flat_map(|(service, slices)| slices.0.iter().map(move |slice| (service, slice)));
        slices.into_iter().find(|(_, slice)| *slice.name == *name)
    }

    fn drop_anywhere(&mut self, namespace: &str, name: &str) -> bool {
        let service = self.find_slice(namespace, name).map(|(service, _)| service.clone());
        service.is_some_and(|service| self.drop_slice(&service, name))
    }

    fn drop_slice(&mut self, service: &ServiceName, name: &str) -> bool {
        let Some(known) = self.slices.get(service) else { return false };
        let rest: Box<[Arc<Slice>]> = known.0.iter().filter(|slice| *slice.name != *name).cloned().collect();
        let is_gone = rest.len() < known.0.len();
        if rest.is_empty() {
            self.slices.remove(service);
        } else if is_gone {
            self.slices.insert(service.clone(), Arc::new(Slices(rest)));
        }
        is_gone
    }

    fn insert_slice(&mut self, service: ServiceName, slice: Arc<Slice>) {
        let mut slices = self.slices.get(&service).map(|known| known.0.to_vec()).unwrap_or_default();
        match slices.binary_search_by(|known| known.name.cmp(&slice.name)) {
            Ok(index) => slices[index] = slice,
            Err(index) => slices.insert(index, slice),
        }
        self.slices.insert(service, Arc::new(Slices(slices.into())));
    }
}

/// When the change happened that led to this version of a slice.
fn trigger(metadata: &Metadata) -> Option<SystemTime> {
    let text = metadata.annotation("endpoints.kubernetes.io/last-change-trigger-time")?;
    text.parse::<jiff::Timestamp>().ok().map(SystemTime::from)
}
