//! Short ways to write the tests' texts and to read what comes out.

use std::sync::Arc;

use portolan_model::{Service, ServiceName, Slice};
use portolan_source::{Manifests, Options, Report};

pub(crate) fn options() -> Options {
    let ranges = ["10.96.0.0/16", "fd00:96::/112"].map(|range| range.parse().unwrap());
    Options { node_name: "here".to_owned(), service_ranges: ranges.to_vec(), ..Options::default() }
}

pub(crate) fn load(text: &str) -> (Manifests, Report) {
    Manifests::from_text(options(), "text.yaml", text)
}

/// Loads a text that must be without fault.
pub(crate) fn good(text: &str) -> Manifests {
    let (manifests, report) = load(text);
    assert!(report.problems.is_empty(), "{text}\n{}", printed(&report));
    manifests
}

pub(crate) fn printed(report: &Report) -> String {
    report.problems.iter().map(|problem| format!("{problem}\n")).collect()
}

/// A Service named `web` with one port, and whatever else its spec holds, in flow style or one line each.
pub(crate) fn web(spec: &[&str]) -> String {
    named("web", spec)
}

pub(crate) fn named(name: &str, spec: &[&str]) -> String {
    let lines: String = spec.iter().map(|line| format!("  {line}\n")).collect();
    let ports = if lines.contains("ports:") { "" } else { "  ports: [{port: 80}]\n" };
    format!("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n{lines}{ports}")
}

pub(crate) fn service(manifests: &Manifests, name: &str) -> Arc<Service> {
    find(manifests, name).unwrap_or_else(|| panic!("there is no Service {name}"))
}

pub(crate) fn find(manifests: &Manifests, name: &str) -> Option<Arc<Service>> {
    manifests.snapshot().services.get(&ServiceName::new("default", name)).cloned()
}

pub(crate) fn slices(manifests: &Manifests, name: &str) -> Vec<Arc<Slice>> {
    let snapshot = manifests.snapshot();
    let slices = snapshot.slices.get(&ServiceName::new("default", name));
    slices.map(|slices| slices.0.to_vec()).unwrap_or_default()
}

/// Slices in short: `name family port,… address,…`, with what is not ready in brackets.
pub(crate) fn shown(manifests: &Manifests, name: &str) -> Vec<String> {
    slices(manifests, name).iter().map(|slice| show(slice)).collect()
}

fn show(slice: &Slice) -> String {
    let ports = slice.ports.iter().map(|port| format!("{}:{}/{}", port.name, port.port, port.protocol));
    let endpoints = slice.endpoints.iter().map(|endpoint| {
        let conditions = endpoint.conditions;
        let mark = match (conditions.ready, conditions.serving, conditions.terminating) {
            (true, _, false) => "",
            (true, _, true) => "(ready, terminating)",
            (false, true, true) => "(draining)",
            (false, _, true) => "(terminating)",
            (false, ..) => "(not ready)",
        };
        format!("{}{mark}", endpoint.address)
    });
    let (ports, endpoints): (Vec<_>, Vec<_>) = (ports.collect(), endpoints.collect());
    format!("{} {} {}", slice.name, ports.join(","), endpoints.join(","))
}
