//! How a Service of a manifest finds its endpoints among the Pods.

use portolan_model::{Service, ServiceKind};

use super::check;
use super::context::Flaw;
use crate::intern::Interner;
use crate::object::{Distribution, Selection, Target};
use crate::spec::{IntOrString, ServiceSpec, texts};

pub(super) fn selection(
    spec: &ServiceSpec,
    service: &Service,
    names: &mut Interner,
) -> Result<Option<Selection>, Flaw> {
    let distribution = distribution(spec)?;
    let pairs = spec.ports.iter().zip(&service.ports).enumerate();
    let targets = pairs.map(|(index, (given, port))| target(given.target_port.as_ref(), port.port, index, names));
    let targets = targets.collect::<Result<_, _>>()?;
    if spec.selector.is_empty() || service.kind == ServiceKind::ExternalName {
        return Ok(None);
    }
    let selector = texts(&spec.selector).map(|(key, value)| (names.share(key), value.into())).collect();
    let publish_not_ready = spec.publish_not_ready_addresses;
    Ok(Some(Selection { selector, targets, publish_not_ready, distribution }))
}

fn distribution(spec: &ServiceSpec) -> Result<Distribution, Flaw> {
    match &*spec.traffic_distribution {
        "" => Ok(Distribution::Anywhere),
        "PreferClose" | "PreferSameZone" => Ok(Distribution::SameZone),
        "PreferSameNode" => Ok(Distribution::SameNode),
        other => {
            let reason = "is not a traffic distribution (PreferClose, PreferSameZone or PreferSameNode)";
            Err(Flaw::new("spec.trafficDistribution", format!("{other:?} {reason}")))
        }
    }
}

/// A number, or the name of a container port. A headless Service is no exception.
fn target(value: Option<&IntOrString>, port: u16, index: usize, names: &mut Interner) -> Result<Target, Flaw> {
    let path = || format!("spec.ports[{index}].targetPort");
    match value.map(IntOrString::value) {
        None | Some(Ok(0) | Err("")) => Ok(Target::Number(port)),
        Some(Ok(number)) => check::port_number(number, path).map(Target::Number),
        Some(Err(name)) => Ok(Target::Name(names.share(check::label(name, path)?))),
    }
}
