//! The address families of a Service, and its explicit ClusterIPs.

use std::net::IpAddr;

use ipnet::IpNet;
use portolan_model::Family;

use super::check;
use super::context::Flaw;
use crate::allocate::usable;
use crate::spec::ServiceSpec;

/// Families, the primary one first, and explicit ClusterIPs in the same order.
pub(super) type Addressing = ([Option<Family>; 2], Box<[IpAddr]>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Single,
    PreferDual,
    RequireDual,
}

pub(super) fn addressing(spec: &ServiceSpec, ranges: &[IpNet]) -> Result<Addressing, Flaw> {
    let addresses = if spec.is_headless() { [].into() } else { explicit_addresses(spec, ranges)? };
    let requested = requested_families(spec, &addresses)?;
    // The endpoints of a headless Service without selector come from outside: the service ranges do not limit them.
    let is_free = spec.is_headless() && spec.selector.is_empty();
    let policy = policy(spec, if requested.len() == 2 || is_free { Policy::RequireDual } else { Policy::Single })?;
    let families = resolve(policy, &requested, ranges, is_free)?;
    Ok((families, addresses))
}

fn explicit_addresses(spec: &ServiceSpec, ranges: &[IpNet]) -> Result<Box<[IpAddr]>, Flaw> {
    let single = Some(&*spec.cluster_ip).filter(|text| !text.is_empty());
    let addresses: Box<[IpAddr]> = match (single, &*spec.cluster_ips) {
        (None, []) => [].into(),
        (Some(text), []) => [explicit_address(text, ranges, "spec.clusterIP")?].into(),
        (_, many) => many
            .iter()
            .enumerate()
            .map(|(index, text)| explicit_address(text, ranges, &format!("spec.clusterIPs[{index}]")))
            .collect::<Result<_, _>>()?,
    };
    agree(single, &addresses)?;
    one_per_family(&addresses)?;
    Ok(addresses)
}

fn agree(single: Option<&str>, addresses: &[IpAddr]) -> Result<(), Flaw> {
    match single {
        Some(text) if check::parse_address(text) != addresses.first().copied() => {
            Err(Flaw::new("spec.clusterIP", format!("{text:?} differs from spec.clusterIPs[0]")))
        }
        _ => Ok(()),
    }
}

fn one_per_family(addresses: &[IpAddr]) -> Result<(), Flaw> {
    match addresses {
        [] | [_] => Ok(()),
        [first, second] if first.is_ipv4() != second.is_ipv4() => Ok(()),
        _ => Err(Flaw::new("spec.clusterIPs", "there may be one address of each family at most")),
    }
}

fn explicit_address(text: &str, ranges: &[IpNet], path: &str) -> Result<IpAddr, Flaw> {
    let address = check::address(text, || path.to_owned())?;
    if ranges.iter().any(|range| usable(range).contains(address)) {
        return Ok(address);
    }
    Err(Flaw::new(path, format!("{address} is not a usable address of {}", listed(ranges))))
}

fn listed(ranges: &[IpNet]) -> String {
    let ranges: Vec<String> = ranges.iter().map(IpNet::to_string).collect();
    format!("the service ranges ({})", ranges.join(", "))
}

/// The families that the Service names, in `ipFamilies` or by its addresses.
fn requested_families(spec: &ServiceSpec, addresses: &[IpAddr]) -> Result<Vec<Family>, Flaw> {
    let families = spec.ip_families.iter().enumerate();
    let families = families.map(|(index, text)| family(text, &format!("spec.ipFamilies[{index}]")));
    let mut families: Vec<Family> = families.collect::<Result<_, _>>()?;
    if families.len() > 2 || families.len() == 2 && families[0] == families[1] {
        return Err(Flaw::new("spec.ipFamilies", "each family may be named once"));
    }
    for (index, address) in addresses.iter().enumerate() {
        let family = Family::of(*address);
        match families.get(index) {
            None => families.push(family),
            Some(known) if *known == family => {}
            Some(known) => {
                let reason = format!("{address} is not an {known} address, as spec.ipFamilies[{index}] requires");
                return Err(Flaw::new(format!("spec.clusterIPs[{index}]"), reason));
            }
        }
    }
    Ok(families)
}

fn family(text: &str, path: &str) -> Result<Family, Flaw> {
    let found = Family::BOTH.into_iter().find(|family| family.to_string() == text);
    found.ok_or_else(|| Flaw::new(path, format!("{text:?} is not an address family (IPv4 or IPv6)")))
}

fn policy(spec: &ServiceSpec, default: Policy) -> Result<Policy, Flaw> {
    match &*spec.ip_family_policy {
        "" => Ok(default),
        "SingleStack" => Ok(Policy::Single),
        "PreferDualStack" => Ok(Policy::PreferDual),
        "RequireDualStack" => Ok(Policy::RequireDual),
        other => {
            let reason = "is not an IP family policy (SingleStack, PreferDualStack or RequireDualStack)";
            Err(Flaw::new("spec.ipFamilyPolicy", format!("{other:?} {reason}")))
        }
    }
}

fn resolve(policy: Policy, requested: &[Family], ranges: &[IpNet], is_free: bool) -> Result<[Option<Family>; 2], Flaw> {
    let has = |family: Family| is_free || ranges.iter().any(|range| Family::of_range(range) == family);
    let primary = requested.first().copied().or(ranges.first().map(Family::of_range)).unwrap_or(Family::V4);
    let second = if primary == Family::V4 { Family::V6 } else { Family::V4 };
    if !has(primary) {
        return Err(Flaw::new("spec.ipFamilies", format!("there is no {primary} range in {}", listed(ranges))));
    }
    match policy {
        Policy::Single if requested.len() > 1 => {
            Err(Flaw::new("spec.ipFamilyPolicy", "SingleStack does not go with two families"))
        }
        Policy::RequireDual if !has(second) => {
            let reason = format!("two families are required, but there is no {second} range in {}", listed(ranges));
            Err(Flaw::new("spec.ipFamilyPolicy", reason))
        }
        Policy::Single => Ok([Some(primary), None]),
        _ => Ok([Some(primary), Some(second).filter(|second| has(*second))]),
    }
}
