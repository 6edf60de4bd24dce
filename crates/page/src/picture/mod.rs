//! A Service as a picture: clients, frontends, routes, pools and endpoints, and what is behind each of them.
//!
//! | file | idea |
//! |---|---|
//! | `parts` | the picture as it is sent |
//! | `ports` | frontends, routes and pools of a Service port |
//! | `endpoints` | all endpoints of a Service port, and their states |
//! | `behind`, `lines` | the fields of objects behind a part, and their lines in files |

mod behind;
mod endpoints;
mod lines;
pub(crate) mod parts;
mod ports;

use portolan_model::{Family, Service};
use portolan_plan::{Origin, PortKey, ServicePlan};

use crate::known::Known;
use crate::rows::{kind, policy};

pub use behind::Behind;
pub use parts::ServiceAnswer;
use parts::{Client, ObjectAnswer, PortAnswer};

impl Known<'_> {
    pub fn service(&self, name: &str) -> Result<ServiceAnswer, String> {
        let name = self.find(name)?;
        let service = self.plan.facts().services.get(&name).ok_or("the Service is gone")?;
        let mut answer = self.picture(service);
        if let Some(paths) = self.manifests {
            lines::add_lines(paths, &name, &mut answer);
        }
        Ok(answer)
    }

    /// Without the lines of files, which cost a look at all of them.
    pub(crate) fn picture(&self, service: &Service) -> ServiceAnswer {
        let mut answer = ServiceAnswer {
            name: service.name.to_string(),
            kind: kind(service).into(),
            change: self.change,
            internal_policy: policy(service.internal_policy).into(),
            external_policy: policy(service.external_policy).into(),
            object: self.object(service),
            clients: Origin::ALL.iter().map(|origin| Client::of(*origin)).collect(),
            ..ServiceAnswer::default()
        };
        for (key, port) in self.plan.port_plans(&service.name) {
            self.add_port(service, key, port, &mut answer);
        }
        answer
    }

    fn object(&self, service: &Service) -> ObjectAnswer {
        let (namespace, name) = (&service.name.namespace, &service.name.name);
        let command = self.manifests.is_none().then(|| format!("kubectl -n {namespace} get service {name} -o yaml"));
        ObjectAnswer { object: format!("Service {}", service.name), file: None, line: None, command }
    }

    fn add_port(&self, service: &Service, key: &PortKey, port: &ServicePlan, answer: &mut ServiceAnswer) {
        let id = format!("port:{}", answer.ports.len());
        let of_service =
            service.ports.iter().position(|it| it.name == key.name.port && it.protocol == key.name.protocol);
        let number = of_service.map(|index| &service.ports[index]);
        answer.ports.push(PortAnswer {
            id: id.clone(),
            name: key.name.port.to_string(),
            protocol: key.name.protocol.to_string(),
            family: if key.family == Family::V4 { "IPv4" } else { "IPv6" }.into(),
            number: number.map(|it| it.port),
            node_port: number.and_then(|it| it.node_port),
            affinity_seconds: port.affinity_seconds,
            algorithm: port.balance.algorithm.map(|algorithm| algorithm.name().to_owned()),
            health_check_port: port.health_check_port,
        });
        let context = ports::Context { service, port, index: of_service.unwrap_or(0), id: &id };
        let pools = context.add_pools(answer);
        context.add_frontends(&pools, answer);
        endpoints::add(self, &context, &pools, answer);
        answer.conflicts.extend(port.conflicts.iter().map(|it| format!("{} belongs to {}", it.address, it.holder)));
    }
}
