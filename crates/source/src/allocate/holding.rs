//! The addresses and node ports of one Service.

use std::net::IpAddr;

use portolan_model::{Protocol, Service};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holding {
    pub(crate) addresses: Vec<IpAddr>,
    /// Protocol, port and node port.
    pub(crate) node_ports: Vec<(Protocol, u16, u16)>,
    pub(crate) health_port: Option<u16>,
}

impl Holding {
    pub(crate) fn of(service: &Service) -> Self {
        let ports = service.ports.iter();
        let node_ports = ports.filter_map(|port| Some((port.protocol, port.port, port.node_port?))).collect();
        Self { addresses: service.cluster_ips.to_vec(), node_ports, health_port: service.health_check_node_port }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.node_ports.iter().map(|(_, _, node_port)| *node_port).chain(self.health_port)
    }
}
