//! Manifests: YAML to the snapshot, and on to the plan.

use portolan_plan::{Plan, PlanConfig, plan};
use portolan_source::{Manifests, Options};

/// The same text again changes nothing, and without text there is nothing.
pub(crate) fn manifests(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let ranges = ["10.96.0.0/16", "fd00:10:96::/112"].map(|range| range.parse().expect("it is a range"));
    let options = Options { node_name: "node-a".into(), service_ranges: ranges.into(), ..Options::default() };
    let (mut manifests, first) = Manifests::from_text(options, "objects.yaml", &text);
    let snapshot = manifests.snapshot();
    let planned = plan(&snapshot, &Plan::default(), &PlanConfig::default());
    let second = manifests.set_text(&text);
    assert!(!second.changed, "the same text is a change");
    assert_eq!(first.problems, second.problems);
    manifests.set_text("");
    let emptied = manifests.snapshot();
    assert!(emptied.services.is_empty() && emptied.slices.is_empty(), "{:?}", emptied.services);
    assert!(plan(&emptied, &planned, &PlanConfig::default()).services.is_empty());
}
