//! Which address families a Service has, and which ClusterIPs it insists on.

use std::net::IpAddr;

use ipnet::IpNet;
use portolan_model::Family;

use super::{Flaw, check};
use crate::allocate::usable;
use crate::read::schema::ServiceSpec;

/// Families, the primary one first, and explicit ClusterIPs in the same order.
pub(super) type Addressing = ([Option<Family>; 2], Box<[IpAddr]>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Policy {
    Single,
    PreferDual,
    RequireDual,
}

pub(super) fn addressing(spec: &ServiceSpec, ranges: &[IpNet], headless: bool) -> Result<Addressing, Flaw> {
    let addresses = if headless { [].into() } else { explicit_addresses(spec, ranges)? };
    let asked = asked_families(spec, &addresses)?;
    // Endpoints of a headless Service without selector come from outside, so the cluster's families do not bind it.
    let unbound = headless && spec.selector.as_ref().is_none_or(|selector| selector.is_empty());
    let policy = policy(spec, if asked.len() == 2 || unbound { Policy::RequireDual } else { Policy::Single })?;
    let families = resolve(policy, &asked, ranges, unbound)?;
    Ok((families, addresses))
}

pub(super) fn is_headless(spec: &ServiceSpec) -> bool {
    let first = spec.cluster_ips.as_ref().and_then(|addresses| addresses.first());
    spec.cluster_ip.as_deref().filter(|text| !text.is_empty()).or(first.map(|text| &**text)) == Some("None")
}

fn explicit_addresses(spec: &ServiceSpec, ranges: &[IpNet]) -> Result<Box<[IpAddr]>, Flaw> {
    let many = spec.cluster_ips.as_deref().unwrap_or_default();
    let single = spec.cluster_ip.as_deref().filter(|text| !text.is_empty());
    let addresses: Box<[IpAddr]> = match (single, many) {
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
        Some(text) if check::address(text) != addresses.first().copied() => {
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
    let address = check::address(text);
    let address = address.ok_or_else(|| Flaw::new(path, format!("{text:?} is not an IP address")))?;
    if ranges.iter().any(|range| usable(range).contains(address)) {
        return Ok(address);
    }
    Err(Flaw::new(path, format!("{address} is not a usable address of {}", listed(ranges))))
}

fn listed(ranges: &[IpNet]) -> String {
    let ranges: Vec<String> = ranges.iter().map(IpNet::to_string).collect();
    format!("the service ranges ({})", ranges.join(", "))
}

/// The families that the Service names itself, in `ipFamilies` or by its addresses.
fn asked_families(spec: &ServiceSpec, addresses: &[IpAddr]) -> Result<Vec<Family>, Flaw> {
    let mut asked = Vec::new();
    for (index, text) in spec.ip_families.iter().flatten().enumerate() {
        asked.push(family(text, &format!("spec.ipFamilies[{index}]"))?);
    }
    if asked.len() > 2 || asked.len() == 2 && asked[0] == asked[1] {
        return Err(Flaw::new("spec.ipFamilies", "each family may be named once"));
    }
    for (index, address) in addresses.iter().enumerate() {
        let family = Family::of(*address);
        match asked.get(index) {
            None => asked.push(family),
            Some(asked) if *asked == family => {}
            Some(asked) => {
                let reason = format!("{address} is not an {asked} address, as spec.ipFamilies[{index}] asks");
                return Err(Flaw::new(format!("spec.clusterIPs[{index}]"), reason));
            }
        }
    }
    Ok(asked)
}

fn family(text: &str, path: &str) -> Result<Family, Flaw> {
    let found = Family::BOTH.into_iter().find(|family| family.to_string() == text);
    found.ok_or_else(|| Flaw::new(path, format!("{text:?} is not an address family (IPv4 or IPv6)")))
}

fn policy(spec: &ServiceSpec, default: Policy) -> Result<Policy, Flaw> {
    match spec.ip_family_policy.as_deref() {
        None | Some("") => Ok(default),
        Some("SingleStack") => Ok(Policy::Single),
        Some("PreferDualStack") => Ok(Policy::PreferDual),
        Some("RequireDualStack") => Ok(Policy::RequireDual),
        Some(other) => {
            let reason = "is not an IP family policy (SingleStack, PreferDualStack or RequireDualStack)";
            Err(Flaw::new("spec.ipFamilyPolicy", format!("{other:?} {reason}")))
        }
    }
}

fn resolve(policy: Policy, asked: &[Family], ranges: &[IpNet], unbound: bool) -> Result<[Option<Family>; 2], Flaw> {
    let has = |family: Family| unbound || ranges.iter().any(|range| Family::of_range(range) == family);
    let primary = asked.first().copied().or(ranges.first().map(Family::of_range)).unwrap_or(Family::V4);
    let second = if primary == Family::V4 { Family::V6 } else { Family::V4 };
    if !has(primary) {
        return Err(Flaw::new("spec.ipFamilies", format!("there is no {primary} range in {}", listed(ranges))));
    }
    match policy {
        Policy::Single if asked.len() > 1 => {
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
