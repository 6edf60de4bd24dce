//! A YAML or JSON document as a tree with line numbers, for messages.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tree {
    Null,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<(u32, Tree)>),
    /// Keys in the order of the file, including duplicates.
    Map(Vec<(u32, String, Tree)>),
}

impl Tree {
    /// The type of the value, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Boolean(_) => "true or false",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// Reads YAML or JSON; an error starts with its line. Of several documents the first is used, as in kube-proxy.
pub(crate) fn read(text: &str) -> Result<Tree, (u32, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (skipped, text) = first_document(text);
    let options = serde_saphyr::options! {
        with_snippet: false,
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        // A hundred times what a configuration needs; a small text must not cause much work.
        budget: serde_saphyr::budget! { max_events: 20_000, max_recorded_anchor_events: 20_000, max_nodes: 20_000 },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 20_000 },
    };
    let read = serde_saphyr::from_str_with_options::<Shifted>(text, options);
    match read {
        Ok(Shifted(tree)) => Ok(moved(tree, skipped)),
        // Some JSON is not YAML, for example if it is indented with tabs.
        Err(error) => serde_json::from_str(text).map(|value| from_json(&value)).map_err(|_| {
            let line = error.location().map_or(1, line_of);
            let message = error.to_string();
            let message = message.split(" at line ").next().unwrap_or_default().replace('\n', " ");
            (line + skipped, message)
        }),
    }
}

/// The text up to the second separator, and the number of lines before it.
fn first_document(text: &str) -> (u32, &str) {
    let is_separator = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let is_filler = |line: &str| line.trim().is_empty() || line.starts_with(['#', '%']);
    let (mut start, mut skipped, mut offset, mut has_content) = (0, 0, 0, false);
    for (number, line) in (1..).zip(text.split_inclusive('\n')) {
        if is_separator(line) && has_content {
            return (skipped, &text[start..offset]);
        }
        offset += line.len();
        if line.trim_end() == "---" {
            (start, skipped) = (offset, number);
        }
        has_content |= !is_filler(line) && !is_separator(line);
    }
    (skipped, &text[start..])
}

fn moved(tree: Tree, by: u32) -> Tree {
    match tree {
        Tree::List(items) => Tree::List(items.into_iter().map(|(line, item)| (line + by, moved(item, by))).collect()),
        Tree::Map(entries) => {
            Tree::Map(entries.into_iter().map(|(line, key, value)| (line + by, key, moved(value, by))).collect())
        }
        leaf => leaf,
    }
}

fn from_json(value: &serde_json::Value) -> Tree {
    match value {
        serde_json::Value::Null => Tree::Null,
        serde_json::Value::Bool(value) => Tree::Boolean(*value),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Tree::Integer(number),
            None => Tree::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Tree::Text(text.clone()),
        serde_json::Value::Array(items) => Tree::List(items.iter().map(|item| (1, from_json(item))).collect()),
        serde_json::Value::Object(map) => {
            Tree::Map(map.iter().map(|(key, value)| (1, key.clone(), from_json(value))).collect())
        }
    }
}

fn line_of(location: serde_saphyr::Location) -> u32 {
    u32::try_from(location.line()).unwrap_or(1).max(1)
}

/// A tree whose lines count from the start of its document.
struct Shifted(Tree);

impl<'de> Deserialize<'de> for Shifted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor).map(Self)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, Shifted(value))) = map.next_entry::<Spanned<String>, Shifted>()? {
            entries.push((line_of(key.referenced), key.value, value));
        }
        Ok(Tree::Map(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Tree, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element::<Spanned<Shifted>>()? {
            items.push((line_of(item.referenced), item.value.0));
        }
        Ok(Tree::List(items))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(i64::try_from(value).map_or(Tree::Number(value as f64), Tree::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
        Ok(Tree::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Text(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_none<E>(self) -> Result<Tree, E> {
        Ok(Tree::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(self)
    }
}
