//! A change as input for `iptables-restore --noflush`, and objects as `iptables-save` would print them. Pure.

use std::fmt::Write;

use portolan_model::Family;

use super::Contents;
use super::names::Kind;
use super::objects::{Key, Place, Table, Value};

/// One call of the program. The kernel commits each of its tables atomically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) family: Family,
    pub(crate) text: String,
    pub(crate) tables: u32,
}

/// What is removed and what is added. A replaced object is in both.
struct Change<'a> {
    removed: &'a Contents,
    added: &'a Contents,
}

/// The steps for one object: chains to create or flush, and lines in their order.
struct Step {
    table: Table,
    declared: Option<String>,
    lines: Vec<String>,
}

/// New chains are created before what jumps to them, and old chains are deleted after it, so that the change can be
/// split anywhere. A change that fits into one part is atomic per table.
pub(crate) fn scripts(removed: &Contents, added: &Contents, longest: usize) -> Vec<Script> {
    let change = Change { removed, added };
    let steps = |family| steps(family, &change);
    Family::BOTH.into_iter().flat_map(|family| parts(family, steps(family), longest)).collect()
}

fn parts(family: Family, steps: Vec<Step>, longest: usize) -> Vec<Script> {
    let mut parts: Vec<Vec<Step>> = Vec::new();
    let mut length = 0;
    for step in steps {
        let lines = step.lines.len() + 1;
        if parts.is_empty() || length + lines > longest {
            parts.push(Vec::new());
            length = 0;
        }
        length += lines;
        parts.last_mut().expect("one was just pushed").push(step);
    }
    parts.into_iter().map(|part| script(family, &part)).collect()
}

fn script(family: Family, steps: &[Step]) -> Script {
    let mut script = Script { family, text: String::new(), tables: 0 };
    for table in Table::ALL {
        let of_table = || steps.iter().filter(|step| step.table == table);
        if of_table().next().is_none() {
            continue;
        }
        script.tables += 1;
        _ = writeln!(script.text, "*{}", table.name());
        of_table().filter_map(|step| step.declared.as_ref()).for_each(|chain| declare(&mut script.text, chain));
        for line in of_table().flat_map(|step| &step.lines) {
            script.text.push_str(line);
            script.text.push('\n');
        }
        script.text.push_str("COMMIT\n");
    }
    script
}

fn declare(text: &mut String, chain: &str) {
    _ = writeln!(text, ":{chain} - [0:0]");
}

fn steps(family: Family, change: &Change<'_>) -> Vec<Step> {
    let (added, removed) = (of_family(family, change.added), of_family(family, change.removed));
    let mut steps = made_chains(&added, change);
    steps.extend(removed.iter().filter_map(|(key, value)| taken_rules(key, value, change)));
    // Each is inserted at the top, so that the one that sorts first ends up first.
    steps.extend(added.iter().rev().filter_map(|(key, _)| listed_rule(key)));
    steps.extend(added.iter().filter_map(|(key, value)| new_tail(key, value)));
    steps.extend(added.iter().rev().filter_map(|(key, _)| jump(key)));
    steps.extend(gone_chains(&removed, change));
    steps
}

type OfFamily<'a> = Vec<(&'a Key, &'a Value)>;

fn of_family(family: Family, objects: &Contents) -> OfFamily<'_> {
    objects.iter().filter(|(key, _)| key.place().family == family).collect()
}

/// Lists first: others jump to them. Chains of Services in the order in which they jump to each other.
fn made_chains(added: &OfFamily<'_>, change: &Change<'_>) -> Vec<Step> {
    let lists = added.iter().filter_map(|(key, _)| match key {
        Key::List(place) if !change.removed.contains_key(*key) => Some(made(place, &[])),
        _ => None,
    });
    let mut chains: Vec<(&Place, &Value)> = added
        .iter()
        .filter_map(|(key, value)| match key {
            Key::Chain(place) => Some((place, *value)),
            _ => None,
        })
        .collect();
    chains.sort_by_key(|(place, _)| Kind::of(&place.chain));
    lists.chain(chains.into_iter().map(|(place, value)| made(place, value.as_rules()))).collect()
}

fn made(place: &Place, rules: &[std::sync::Arc<str>]) -> Step {
    let lines = rules.iter().map(|rule| format!("-A {} {rule}", place.chain)).collect();
    Step { table: place.table, declared: Some(place.chain.to_string()), lines }
}

fn line(place: &Place, line: String) -> Step {
    Step { table: place.table, declared: None, lines: vec![line] }
}

/// Deletes single rules. The rules of a deleted list are flushed with it.
fn taken_rules(key: &Key, value: &Value, change: &Change<'_>) -> Option<Step> {
    let goes = |place: &Place| is_gone(&Key::List(place.clone()), change);
    match key {
        Key::Rule(place, rule, _) | Key::Jump(place, _, rule) if !goes(place) => {
            Some(line(place, format!("-D {} {rule}", place.chain)))
        }
        Key::List(place) if !goes(place) => {
            let lines = value.as_rules().iter().map(|rule| format!("-D {} {rule}", place.chain)).collect();
            Some(Step { table: place.table, declared: None, lines })
        }
        _ => None,
    }
}

fn listed_rule(key: &Key) -> Option<Step> {
    match key {
        Key::Rule(place, rule, _) => Some(line(place, format!("-I {} {rule}", place.chain))),
        _ => None,
    }
}

fn new_tail(key: &Key, value: &Value) -> Option<Step> {
    let Key::List(place) = key else { return None };
    let lines: Vec<String> = value.as_rules().iter().map(|rule| format!("-A {} {rule}", place.chain)).collect();
    (!lines.is_empty()).then_some(Step { table: place.table, declared: None, lines })
}

fn jump(key: &Key) -> Option<Step> {
    match key {
        Key::Jump(place, _, rule) => Some(line(place, format!("-I {} {rule}", place.chain))),
        _ => None,
    }
}

fn is_gone(key: &Key, change: &Change<'_>) -> bool {
    change.removed.contains_key(key) && !change.added.contains_key(key)
}

fn gone_chains(removed: &OfFamily<'_>, change: &Change<'_>) -> Vec<Step> {
    let gone = removed.iter().filter(|(key, _)| matches!(key, Key::Chain(_) | Key::List(_)) && is_gone(key, change));
    let mut places: Vec<&Place> = gone.map(|(key, _)| key.place()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(Kind::of(&place.chain)));
    let step = |place: &&Place| Step {
        table: place.table,
        declared: Some(place.chain.to_string()),
        lines: vec![format!("-X {}", place.chain)],
    };
    places.iter().map(step).collect()
}

/// Objects in the format of `iptables-save`, for both families.
pub(crate) fn listing(objects: &Contents) -> String {
    let part = |family| {
        let program = if family == Family::V4 { "iptables-save" } else { "ip6tables-save" };
        format!("# {program}\n{}", script(family, &listed_steps(family, objects)).text)
    };
    Family::BOTH.into_iter().map(part).collect()
}

/// In the order of the rules, not in the order of creation.
fn listed_steps(family: Family, objects: &Contents) -> Vec<Step> {
    let all = of_family(family, objects);
    let appended = |place: &Place, rule: &str| line(place, format!("-A {} {rule}", place.chain));
    let single = all.iter().filter_map(|(key, _)| match key {
        Key::Rule(place, rule, _) | Key::Jump(place, _, rule) => Some(appended(place, rule)),
        Key::Chain(_) | Key::List(_) => None,
    });
    let whole = all.iter().filter_map(|(key, value)| match key {
        Key::Chain(place) | Key::List(place) => Some(made(place, value.as_rules())),
        Key::Rule(..) | Key::Jump(..) => None,
    });
    single.chain(whole).collect()
}
