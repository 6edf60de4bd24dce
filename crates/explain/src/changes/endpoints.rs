//! What differs in the slices of a Service, in words.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use portolan_model::{ServiceName, Slice, SliceEndpoint, Slices};

use super::Cause;

/// Endpoints in the text of one cause.
const MOST_LISTED: usize = 3;

pub(super) fn slice_causes(name: &ServiceName, old: Option<&Arc<Slices>>, new: Option<&Arc<Slices>>) -> Vec<Cause> {
    let (old, new) = (by_name(old), by_name(new));
    let gone = old.iter().filter(|(slice, _)| !new.contains_key(*slice));
    let gone = gone.map(|(slice, it)| cause(name, slice, format!("was deleted ({})", count(it))));
    let present = new.iter().filter_map(|(slice, it)| match old.get(slice) {
        None => Some(cause(name, slice, format!("was added ({})", count(it)))),
        Some(before) if before != it => Some(cause(name, slice, changed(before, it))),
        Some(_) => None,
    });
    gone.chain(present).collect()
}

fn by_name(slices: Option<&Arc<Slices>>) -> BTreeMap<&str, &Slice> {
    slices.iter().flat_map(|slices| slices.0.iter()).map(|slice| (&*slice.name, &**slice)).collect()
}

fn cause(service: &ServiceName, slice: &str, what: String) -> Cause {
    Cause::new("EndpointSlice", format!("{}/{slice}", service.namespace), what)
}

fn count(slice: &Slice) -> String {
    match slice.endpoints.as_ref() {
        [only] => format!("endpoint {}", described(only)),
        several => format!("{} endpoints", several.len()),
    }
}

fn changed(old: &Slice, new: &Slice) -> String {
    let (before, after) = (by_address(old), by_address(new));
    let mut list: Vec<String> = Vec::new();
    for (address, endpoint) in &after {
        match before.get(address) {
            None => list.push(format!("endpoint {} was added", described(endpoint))),
            Some(old) if old != endpoint => {
                list.push(format!("endpoint {} {}", described(endpoint), state(old, endpoint)));
            }
            Some(_) => {}
        }
    }
    let gone = before.iter().filter(|(address, _)| !after.contains_key(*address));
    list.extend(gone.map(|(_, endpoint)| format!("endpoint {} was removed", described(endpoint))));
    if old.ports != new.ports {
        list.push("ports changed".to_owned());
    }
    let more = list.len().saturating_sub(MOST_LISTED);
    list.truncate(MOST_LISTED);
    list.extend((more > 0).then(|| format!("and {more} more")));
    if list.is_empty() { "changed".to_owned() } else { list.join("; ") }
}

fn by_address(slice: &Slice) -> BTreeMap<IpAddr, &SliceEndpoint> {
    slice.endpoints.iter().map(|endpoint| (endpoint.address, endpoint)).collect()
}

fn described(endpoint: &SliceEndpoint) -> String {
    match &endpoint.pod {
        Some(pod) => format!("{} (pod {pod})", endpoint.address),
        None => endpoint.address.to_string(),
    }
}

fn state(old: &SliceEndpoint, new: &SliceEndpoint) -> &'static str {
    let (was, is) = (old.conditions, new.conditions);
    match () {
        () if is.terminating && !was.terminating && is.serving => "is terminating and still serves",
        () if is.terminating && !was.terminating => "is terminating",
        () if is.ready && !was.ready => "is ready",
        () if !is.ready && was.ready => "is not ready",
        () if !is.serving && was.serving => "does not serve any more",
        () if old.weight != new.weight => "has another weight",
        () if old.hints() != new.hints() => "has other hints",
        () => "changed",
    }
}
