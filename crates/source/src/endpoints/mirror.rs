//! Slices that mirror the Endpoints of a Service without selector.

use std::sync::Arc;

use portolan_model::{Conditions, Extras, Family, Hints, Place, ServiceName, Slice, SliceEndpoint, Weight};

use crate::object::{Subset, SubsetAddress};

/// One slice for each subset and family.
pub(crate) fn mirrored(service: &ServiceName, subsets: &[Subset]) -> Vec<Slice> {
    let subsets = subsets.iter().enumerate();
    let pairs = subsets.flat_map(|(index, subset)| Family::BOTH.map(|family| (index, subset, family)));
    pairs.filter_map(|(index, subset, family)| mirrored_subset(service, index, subset, family)).collect()
}

fn mirrored_subset(service: &ServiceName, index: usize, subset: &Subset, family: Family) -> Option<Slice> {
    let of_family = subset.addresses.iter().filter(|address| Family::of(address.address) == family);
    let endpoints: Vec<SliceEndpoint> = of_family.map(endpoint).collect();
    let name = format!("{}-mirrored-{}-{index}", service.name, super::family_mark(family));
    (!endpoints.is_empty()).then(|| super::slice(name, family, subset.ports.clone(), endpoints))
}

fn endpoint(address: &SubsetAddress) -> SliceEndpoint {
    SliceEndpoint {
        address: address.address,
        conditions: if address.ready { Conditions::READY } else { Conditions::NOT_READY },
        weight: Weight::default(),
        place: Place { node: address.node.clone(), zone: None }.known().map(Arc::new),
        pod: address.pod.clone(),
        extras: Extras { hints: Hints::default(), hostname: address.hostname.clone() }.boxed(),
    }
}
