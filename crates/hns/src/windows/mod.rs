//! The HNS of this machine.

mod calls;

use std::collections::BTreeSet;
use std::net::IpAddr;

use portolan_kernel::compute_network::{ComputeNetwork, Kind};
use serde::Deserialize;
use serde_json::json;

use crate::{Endpoint, Error, ErrorKind, Guid, Hns, LoadBalancer, Network, Version};
use calls::{checked, enumerated, filter, parsed};

pub fn connect() -> Result<Box<dyn Hns>, Error> {
    let failed = |error: std::io::Error| {
        let code = error.raw_os_error().unwrap_or(126).cast_unsigned();
        let advice = "is the Windows feature Containers or Hyper-V installed?";
        Error::new("opening the Host Networking Service", code, format!("{error} ({advice})"))
    };
    Ok(Box::new(MachineHns(ComputeNetwork::load().map_err(failed)?)))
}

struct MachineHns(ComputeNetwork);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionAnswer {
    #[serde(default)]
    success: bool,
    #[serde(default)]
    error: String,
    output: Option<VersionNumbers>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct VersionNumbers {
    major: u32,
    minor: u32,
}

impl MachineHns {
    fn identities_of(&self, kind: Kind, query: &str) -> Result<Vec<Guid>, Error> {
        enumerated(&self.0, kind, query)
    }

    /// The content of each object. One that is deleted meanwhile is left out.
    fn all<T: for<'a> Deserialize<'a>>(&self, kind: Kind, query: &str) -> Result<Vec<T>, Error> {
        let mut found = Vec::new();
        for id in self.identities_of(kind, query)? {
            match self.content(kind, id) {
                Err(error) if error.is_not_found() || error.kind() == ErrorKind::NetworkNotFound => {}
                content => found.push(content?),
            }
        }
        Ok(found)
    }

    fn content<T: for<'a> Deserialize<'a>>(&self, kind: Kind, id: Guid) -> Result<T, Error> {
        let attempted = || format!("reading the {} {id}", calls::name(kind));
        let opened = checked(self.0.open(kind, id.bytes()), attempted)?;
        parsed(&checked(opened.query(&filter(None)), attempted)?, attempted)
    }
}

impl Hns for MachineHns {
    fn version(&mut self) -> Result<Version, Error> {
        let attempted = || "reading the version of HNS".to_owned();
        let answer: VersionAnswer = parsed(&checked(self.0.legacy("GET", "/globals/version"), attempted)?, attempted)?;
        match answer.output.filter(|_| answer.success) {
            Some(VersionNumbers { major, minor }) => Ok(Version::new(major, minor)),
            None => Err(Error::new(attempted(), Error::of(ErrorKind::Other, "").code(), answer.error)),
        }
    }

    fn networks(&mut self) -> Result<Vec<Network>, Error> {
        self.all(Kind::Network, &filter(None))
    }

    fn network(&mut self, name: &str) -> Result<Option<Network>, Error> {
        let networks: Vec<Network> = self.all(Kind::Network, &filter(Some(json!({"Name": name}))))?;
        Ok(networks.into_iter().find(|network| network.name.eq_ignore_ascii_case(name)))
    }

    fn endpoints(&mut self, network: Guid) -> Result<Vec<Endpoint>, Error> {
        let found: Vec<Endpoint> = self.all(Kind::Endpoint, &of_network(network))?;
        Ok(found.into_iter().filter(|it| it.host_compute_network.is_none_or(|other| other == network)).collect())
    }

    fn identities(&mut self, network: Guid) -> Result<BTreeSet<Guid>, Error> {
        let endpoints = self.identities_of(Kind::Endpoint, &of_network(network))?;
        let balancers = self.identities_of(Kind::LoadBalancer, &filter(None))?;
        Ok(endpoints.into_iter().chain(balancers).collect())
    }

    fn create_endpoint(&mut self, network: Guid, id: Guid, settings: &Endpoint) -> Result<(), Error> {
        let document = calls::document(settings)?;
        let attempted = || format!("creating an HNS endpoint with {document}");
        let network = checked(self.0.open(Kind::Network, network.bytes()), attempted)?;
        checked(network.create_endpoint(id.bytes(), &document), attempted)
    }

    fn delete_endpoint(&mut self, id: Guid) -> Result<(), Error> {
        checked(self.0.delete(Kind::Endpoint, id.bytes()), || format!("deleting the HNS endpoint {id}"))
    }

    fn load_balancers(&mut self) -> Result<Vec<LoadBalancer>, Error> {
        self.all(Kind::LoadBalancer, &filter(None))
    }

    fn create_load_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error> {
        let document = calls::document(settings)?;
        let attempted = || format!("creating an HNS load balancer with {document}");
        checked(self.0.create_load_balancer(id.bytes(), &document), attempted)
    }

    fn modify_load_balancer(&mut self, id: Guid, settings: &LoadBalancer) -> Result<(), Error> {
        let document = calls::document(settings)?;
        let attempted = || format!("changing the HNS load balancer {id} to {document}");
        let opened = checked(self.0.open(Kind::LoadBalancer, id.bytes()), attempted)?;
        checked(opened.modify(&document), attempted)
    }

    fn delete_load_balancer(&mut self, id: Guid) -> Result<(), Error> {
        checked(self.0.delete(Kind::LoadBalancer, id.bytes()), || format!("deleting the HNS load balancer {id}"))
    }

    fn host_mac(&mut self, address: IpAddr) -> Result<String, Error> {
        let attempted = || format!("looking for the interface with the address {address}");
        let failed = |reason: String| Error::new(attempted(), Error::of(ErrorKind::ObjectNotFound, "").code(), reason);
        let adapters = portolan_kernel::adapters().map_err(|error| failed(error.to_string()))?;
        let found = adapters.into_iter().find(|adapter| adapter.addresses.iter().any(|(held, _)| *held == address));
        let adapter = found.ok_or_else(|| failed("no interface has it".into()))?;
        let octets: Vec<String> = adapter.hardware_address.iter().map(|octet| format!("{octet:02X}")).collect();
        Ok(octets.join("-"))
    }
}

fn of_network(network: Guid) -> String {
    filter(Some(json!({"VirtualNetwork": network.to_string()})))
}
