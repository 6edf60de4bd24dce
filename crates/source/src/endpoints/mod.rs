//! The EndpointSlice controllers: slices from Pods and from Endpoints.

pub(crate) mod mirror;
pub(crate) mod pods;

use portolan_model::{Family, Slice, SliceEndpoint, SlicePort};

fn family_mark(family: Family) -> &'static str {
    match family {
        Family::V4 => "v4",
        Family::V6 => "v6",
    }
}

fn slice(name: String, family: Family, ports: Box<[SlicePort]>, endpoints: Vec<SliceEndpoint>) -> Slice {
    Slice { name: name.into(), family, is_for_names_only: false, ports, endpoints: endpoints.into() }
}
