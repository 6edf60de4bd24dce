//! A YAML or JSON document as a tree with line numbers, for messages.

use portolan_yaml::{Content, DuplicateKeys, Node, Scalar};

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
            Self::Number(number) if !number.is_finite() => "a number that is not finite",
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
    match portolan_yaml::read_first(text, DuplicateKeys::Kept) {
        Ok(tree) => Ok(from_node(&tree.root(text))),
        // Some JSON is not YAML, for example if it is indented with tabs.
        Err(error) => serde_json::from_str(text).map(from_json).map_err(|_| (error.line, error.reason)),
    }
}

fn from_node(node: &Node<'_>) -> Tree {
    match node.content() {
        Content::Plain(text) => from_scalar(Scalar::of(text)),
        Content::Quoted(text) => Tree::Text(text.to_owned()),
        Content::List(items) => Tree::List(items.map(|item| (item.line(), from_node(&item))).collect()),
        Content::Map(entries) => {
            Tree::Map(entries.map(|it| (it.line, it.key.to_owned(), from_node(&it.value))).collect())
        }
    }
}

fn from_scalar(scalar: Scalar<'_>) -> Tree {
    match scalar {
        Scalar::Null => Tree::Null,
        Scalar::Boolean(value) => Tree::Boolean(value),
        Scalar::Integer(number) => i64::try_from(number).map_or(Tree::Number(number as f64), Tree::Integer),
        Scalar::Number(number) => Tree::Number(number),
        Scalar::Text(text) => Tree::Text(text.into()),
    }
}

fn from_json(value: serde_json::Value) -> Tree {
    match value {
        serde_json::Value::Null => Tree::Null,
        serde_json::Value::Bool(value) => Tree::Boolean(value),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(number) => Tree::Integer(number),
            None => Tree::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Tree::Text(text),
        serde_json::Value::Array(items) => Tree::List(items.into_iter().map(|item| (1, from_json(item))).collect()),
        serde_json::Value::Object(map) => {
            Tree::Map(map.into_iter().map(|(key, value)| (1, key, from_json(value))).collect())
        }
    }
}
