//! Node ports. Ports of one Service with the same number and different protocols share one.

use portolan_model::{Service, ServicePort};

use super::allocator::{Allocator, Refusal};
use super::band;
use super::holding::Holding;
use crate::object::AddressRequest;

impl Allocator {
    pub(super) fn choose_ports(
        &self,
        service: &mut Service,
        request: &AddressRequest,
        held: &Holding,
    ) -> Result<(), Refusal> {
        service.ports.iter_mut().for_each(|port| port.node_port = None);
        service.health_check_node_port = None;
        self.take_explicit_ports(service, request)?;
        if request.needs_node_ports {
            (0..service.ports.len()).try_for_each(|index| self.fill_port(service, index, held))?;
        }
        if request.needs_health_port {
            service.health_check_node_port = Some(self.health_port(service, request, held)?);
        }
        Ok(())
    }

    fn take_explicit_ports(&self, service: &mut Service, request: &AddressRequest) -> Result<(), Refusal> {
        for (index, (port, number)) in service.ports.iter_mut().zip(request.node_ports()).enumerate() {
            if *number == 0 {
                continue;
            }
            if self.ports.contains(number) {
                return Err(Refusal::PortTaken { path: format!("spec.ports[{index}].nodePort"), number: *number });
            }
            port.node_port = Some(*number);
        }
        Ok(())
    }

    fn fill_port(&self, service: &mut Service, index: usize, held: &Holding) -> Result<(), Refusal> {
        let port = &service.ports[index];
        if port.node_port.is_some() {
            return Ok(());
        }
        let found = shared(&service.ports, port)
            .or_else(|| {
                held_port(held, port).filter(|number| self.in_range(*number) && is_free(&service.ports, *number))
            })
            .or_else(|| self.pick_port(service, &format!("{}/{}", port.port, port.protocol)));
        service.ports[index].node_port = Some(found.ok_or(Refusal::NoPortLeft)?);
        Ok(())
    }

    fn health_port(&self, service: &Service, request: &AddressRequest, held: &Holding) -> Result<u16, Refusal> {
        let taken = |number: u16| self.ports.contains(&number) || !is_free(&service.ports, number);
        match request.health_port() {
            Some(number) if taken(number) => {
                Err(Refusal::PortTaken { path: "spec.healthCheckNodePort".to_owned(), number })
            }
            Some(number) => Ok(number),
            None => {
                let held = held.health_port.filter(|number| self.in_range(*number) && !taken(*number));
                held.or_else(|| self.pick_port(service, "health")).ok_or(Refusal::NoPortLeft)
            }
        }
    }

    fn pick_port(&self, service: &Service, purpose: &str) -> Option<u16> {
        let hash = band::stable_hash(&[&service.name.namespace, &service.name.name, purpose]);
        let free = |number: u16| !self.ports.contains(&number) && is_free(&service.ports, number);
        band::pick_port(&self.node_port_range, hash, free)
    }

    fn in_range(&self, number: u16) -> bool {
        self.node_port_range.contains(&number)
    }
}

fn shared(ports: &[ServicePort], port: &ServicePort) -> Option<u16> {
    let twin = |other: &&ServicePort| other.port == port.port && other.protocol != port.protocol;
    ports.iter().filter(twin).find_map(|other| other.node_port)
}

fn held_port(held: &Holding, port: &ServicePort) -> Option<u16> {
    let same = |entry: &&(_, u16, u16)| entry.0 == port.protocol && entry.1 == port.port;
    held.node_ports.iter().find(same).map(|(_, _, number)| *number)
}

fn is_free(ports: &[ServicePort], number: u16) -> bool {
    ports.iter().all(|port| port.node_port != Some(number))
}
