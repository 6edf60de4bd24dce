//! `docs/metrics.md` lists exactly the existing metrics.

use std::fs;
use std::path::Path;

use portolan_status::Descriptor;

use crate::names::metrics;

const BEGIN: &str = "<!-- metrics: written by UPDATE_EXPECT=1 cargo test -p portolan-status documentation -->\n";
const END: &str = "<!-- end of metrics -->\n";

#[test]
fn the_page_lists_every_metric() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("docs/metrics.md has the place where the table begins");
    let (_, after) = rest.split_once(END).expect("docs/metrics.md has the place where the table ends");
    let written = format!("{before}{BEGIN}{}{END}{after}", table());
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, written).unwrap();
    } else {
        assert!(page == written, "docs/metrics.md is out of date (UPDATE_EXPECT=1 rewrites it)");
    }
}

/// The name of a histogram's series has one of these at its end.
const ENDINGS: [&str; 3] = ["_bucket", "_sum", "_count"];

#[test]
fn alerts_and_dashboard_name_existing_metrics() {
    let metrics = metrics();
    let known: Vec<&str> = metrics.registry().descriptors().map(|it| it.name).collect();
    for file in ["alerts.yaml", "dashboard.json"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/monitoring").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let named: Vec<&str> = text.split(|it: char| !it.is_alphanumeric() && it != '_').filter(is_metric).collect();
        assert!(named.len() > 10, "{file} names {} metrics", named.len());
        for name in named {
            let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
            assert!(known.contains(&name) || known.contains(&stem), "{file}: there is no metric {name}");
        }
    }
}

fn is_metric(word: &&str) -> bool {
    ["portolan_", "kubeproxy_", "process_", "rest_client_"].iter().any(|prefix| word.starts_with(prefix))
}

fn table() -> String {
    let metrics = metrics();
    let rows: String = metrics.registry().descriptors().map(row).collect();
    format!("\n| name | type | labels | what it is |\n|---|---|---|---|\n{rows}\n")
}

fn row(descriptor: &Descriptor) -> String {
    let Descriptor { name, kind, labels, help } = descriptor;
    let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
    let (kind, labels) = (kind.name(), labels.join(", "));
    format!("| `{name}` | {kind} | {labels} | {help} |\n")
}
