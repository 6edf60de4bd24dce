//! What would change, as objects and as behaviour.

use std::sync::Arc;

use portolan_dataplane::Difference;
use portolan_model::DiffItem;
use portolan_plan::{Frontend, Plan, Pool, Route, Routes, ServicePlan, Verdict};
use serde::{Deserialize, Serialize};

use crate::table::Style;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DifferenceAnswer {
    pub behaviour: Vec<BehaviourChange>,
    /// One line per object, `-` and `+`.
    pub objects: Vec<String>,
}

/// What a client of one address would notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BehaviourChange {
    pub service: String,
    pub frontend: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

pub fn difference(before: &Plan, after: &Plan, objects: &Difference) -> DifferenceAnswer {
    let behaviour = before.services.diff(&after.services).flat_map(|item| match item {
        DiffItem::Add(_, new) => port_changes(None, Some(new)),
        DiffItem::Remove(_, old) => port_changes(Some(old), None),
        DiffItem::Update { old, new } => port_changes(Some(old.1), Some(new.1)),
    });
    DifferenceAnswer { behaviour: behaviour.collect(), objects: objects.text.lines().map(Into::into).collect() }
}

fn port_changes(old: Option<&Arc<ServicePlan>>, new: Option<&Arc<ServicePlan>>) -> Vec<BehaviourChange> {
    described_changes(old, new, &|port, pool| port.shares(pool).join(" or "))
}

/// The endpoints of a pool in words.
pub(crate) type PoolWords<'a> = dyn Fn(&ServicePlan, Pool) -> String + 'a;

/// What changes at each address of a Service port.
pub(crate) fn described_changes(
    old: Option<&Arc<ServicePlan>>,
    new: Option<&Arc<ServicePlan>>,
    words: &PoolWords<'_>,
) -> Vec<BehaviourChange> {
    let described = |port: Option<&Arc<ServicePlan>>| -> Vec<(String, String)> {
        let Some(port) = port else { return Vec::new() };
        let describe = |it: &Frontend| (format!("{}/{}", it.address, port.protocol()), behaviour(port, it, words));
        port.frontends.iter().map(describe).collect()
    };
    let (before, after) = (described(old), described(new));
    let service = old.or(new).map_or(String::new(), |port| port.key.to_string());
    let find = |list: &[(String, String)], name: &str| list.iter().find(|(it, _)| it == name).map(|it| it.1.clone());
    let mut names: Vec<&String> = before.iter().chain(&after).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| BehaviourChange {
            service: service.clone(),
            frontend: name.clone(),
            before: find(&before, name),
            after: find(&after, name),
        })
        .filter(|change| change.before != change.after)
        .collect()
}

/// A frontend's behaviour in one line, by the source of the traffic.
fn behaviour(port: &ServicePlan, frontend: &Frontend, pools: &PoolWords<'_>) -> String {
    let Routes { pod, node, outside } = frontend.routes;
    let words = |route| route_words(port, route, pools);
    let mut text = if pod == node && node == outside {
        words(pod)
    } else if node == outside && pod.verdict == node.verdict {
        format!("{}, except for pods", words(node))
    } else if node == outside {
        format!("pods {}; others {}", words(pod), words(node))
    } else {
        format!("pods {}; the node {}; outside {}", words(pod), words(node), words(outside))
    };
    if let Some(sources) = &frontend.sources {
        let ranges: Vec<String> = sources.iter().map(ToString::to_string).collect();
        text += &format!("; only from {}", ranges.join(", "));
    }
    if let Some(seconds) = port.affinity_seconds {
        text += &format!("; sticky for {seconds} s");
    }
    text
}

fn route_words(port: &ServicePlan, route: Route, pools: &PoolWords<'_>) -> String {
    match route.verdict {
        Verdict::Refuse(refusal) => refusal.to_string(),
        Verdict::Forward(pool) => {
            let masquerade = if route.masquerade { ", masqueraded" } else { "" };
            format!("to {}{masquerade}", pools(port, pool))
        }
    }
}

impl DifferenceAnswer {
    pub fn is_empty(&self) -> bool {
        self.behaviour.is_empty() && self.objects.is_empty()
    }

    pub fn text(&self, style: Style) -> String {
        if self.is_empty() {
            return "no difference\n".into();
        }
        let mut lines = vec![style.bold("behaviour")];
        lines.extend(self.behaviour.iter().flat_map(|change| behaviour_lines(change, style)));
        lines.push(style.bold("objects"));
        lines.extend(self.objects.iter().map(|line| object_line(line, style)));
        lines.join("\n") + "\n"
    }
}

fn behaviour_lines(change: &BehaviourChange, style: Style) -> Vec<String> {
    let mut lines = vec![format!("  {} {}", change.service, change.frontend)];
    lines.extend(change.before.iter().map(|before| style.red(&format!("    - {before}"))));
    lines.extend(change.after.iter().map(|after| style.green(&format!("    + {after}"))));
    lines
}

fn object_line(line: &str, style: Style) -> String {
    match line.as_bytes().first() {
        Some(b'-') => style.red(&format!("  {line}")),
        Some(b'+') => style.green(&format!("  {line}")),
        _ => format!("  {line}"),
    }
}
