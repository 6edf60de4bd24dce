//! Services, of this proxy and of others.

use std::sync::Arc;
use std::time::Instant;

use portolan_model::{Service, ServiceName};

use super::known::Facts;
use super::report::report_omitted;
use crate::cluster::options::Names;
use crate::convert::context::{Context, Flaw, Reading};
use crate::convert::identity::identify;
use crate::convert::service;
use crate::object::Kind;
use crate::spec::{self, Metadata};

impl Facts {
    pub(super) fn put_service(&mut self, object: &spec::Service, now: Instant) -> Result<(), Flaw> {
        match self.read_service(object)? {
            (name, None) => self.drop_service(&name, now),
            (name, Some(service)) => {
                if self.insert_service(name, service, service::is_foreign(object)) {
                    self.changes.service(now);
                    self.has_changed = true;
                }
            }
        }
        Ok(())
    }

    /// The known `Arc` if nothing changed that matters; `None` for a Service that has neither rules nor wanted names.
    pub(super) fn read_service(&mut self, object: &spec::Service) -> Result<(ServiceName, Option<Arc<Service>>), Flaw> {
        let id = identify(Kind::Service, &object.metadata, &mut self.names)?;
        let mut context = Context::new(Reading::Lenient, &mut self.names);
        let service = service::assigned(object, &id, &mut context)?;
        report_omitted("Service", &object.metadata, &context);
        let omitted = context.omitted;
        self.malformed.note(&id.service_name(), &omitted);
        let is_headless = object.spec.as_ref().is_some_and(spec::ServiceSpec::is_headless);
        let is_wanted = self.wanted_names != Names::None || !is_headless;
        let service = service.filter(|_| is_wanted).map(|service| self.known_or_new(service));
        Ok((id.service_name(), service))
    }

    fn known_or_new(&self, service: Service) -> Arc<Service> {
        let known = self.services.get(&service.name).or_else(|| self.foreign.get(&service.name));
        known.filter(|known| ***known == service).cloned().unwrap_or_else(|| Arc::new(service))
    }

    /// The last good version of a Service, and whether it is another proxy's.
    pub(super) fn known_service(&mut self, metadata: &Metadata) -> Option<(ServiceName, (Arc<Service>, bool))> {
        let name = identify(Kind::Service, metadata, &mut self.names).ok()?.service_name();
        let own = self.services.get(&name).map(|service| (service.clone(), false));
        let known = own.or_else(|| self.foreign.get(&name).map(|service| (service.clone(), true)))?;
        Some((name, known))
    }

    pub(super) fn remove_service(&mut self, metadata: &Metadata, now: Instant) {
        let name = ServiceName::new(&metadata.namespace, &metadata.name);
        self.malformed.forget(&name);
        self.drop_service(&name, now);
    }

    pub(super) fn drop_service(&mut self, name: &ServiceName, now: Instant) {
        if self.services.remove(name).or(self.foreign.remove(name)).is_some() {
            self.changes.service(now);
            self.has_changed = true;
        }
    }

    /// Puts a Service into its map. Returns whether anything changed.
    pub(super) fn insert_service(&mut self, name: ServiceName, service: Arc<Service>, is_foreign: bool) -> bool {
        let (into, out_of) = match is_foreign {
            true => (&mut self.foreign, &mut self.services),
            false => (&mut self.services, &mut self.foreign),
        };
        let left = out_of.remove(&name).is_some();
        let is_known = into.get(&name).is_some_and(|known| Arc::ptr_eq(known, &service));
        if !is_known {
            into.insert(name, service);
        }
        left || !is_known
    }
}
