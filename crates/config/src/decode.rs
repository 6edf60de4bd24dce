//! Decodes a file into the values of its fields: lenient about unknown names, strict about types.

use crate::document::{Place, Values};
use crate::fields::{FIELDS, Field, REMOVED_FIELDS};
use crate::notice::{Errors, Notice};
use crate::span::Span;
use crate::tree::{self, Tree};
use crate::value::{Kind, Value};

const VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
const KIND: &str = "KubeProxyConfiguration";

/// The content of a file, before defaulting.
#[derive(Default)]
pub(crate) struct Decoded {
    pub(crate) values: Values,
    pub(crate) notices: Vec<Notice>,
    errors: Vec<String>,
}

pub(crate) fn decode(file: &str, text: &str) -> Result<Decoded, Errors> {
    let tree = tree::read(text).map_err(|(line, reason)| Errors::one(format!("{file}:{line}: {reason}")))?;
    let Tree::Map(entries) = tree else {
        return Err(Errors::one(format!("{file}:1: expected a {KIND}, found {}", tree.what())));
    };
    let mut decoder = Decoder { file, decoded: Decoded::default() };
    decoder.check_header(&entries);
    decoder.section("", &entries);
    match decoder.decoded {
        decoded if decoded.errors.is_empty() => Ok(decoded),
        decoded => Err(Errors(decoded.errors)),
    }
}

struct Decoder<'a> {
    file: &'a str,
    decoded: Decoded,
}

impl Decoder<'_> {
    fn check_header(&mut self, entries: &[(u32, String, Tree)]) {
        for (name, expected) in [("apiVersion", VERSION), ("kind", KIND)] {
            match entries.iter().rfind(|(_, key, _)| key == name) {
                Some((_, _, Tree::Text(text))) if text == expected => {}
                Some((line, _, Tree::Text(text))) => {
                    self.error(*line, name, &format!("{text:?} is not supported: write {expected}"));
                }
                Some((line, _, other)) => {
                    self.error(*line, name, &format!("found {}: write {expected}", other.what()));
                }
                None => self.error(1, name, &format!("it is missing: write {name}: {expected}")),
            }
        }
    }

    fn section(&mut self, prefix: &str, entries: &[(u32, String, Tree)]) {
        for (index, (line, key, tree)) in entries.iter().enumerate() {
            let path = format!("{prefix}{key}");
            if let Some((first, ..)) = entries[..index].iter().find(|(_, before, _)| before == key) {
                self.notice(*line, &path, &format!("duplicate field; this one overrides line {first}"));
                self.decoded.values.remove(&path);
            }
            self.entry(*line, &path, tree);
        }
    }

    fn entry(&mut self, line: u32, path: &str, tree: &Tree) {
        let below = format!("{path}.");
        match (Field::named(path), tree) {
            _ if path == "apiVersion" || path == "kind" => {}
            (_, Tree::Null) if is_known(path) => {}
            (Some(field), tree) => self.field(line, field, tree),
            (None, Tree::Map(entries)) if FIELDS.iter().any(|it| it.path.starts_with(&below)) => {
                self.section(&below, entries);
            }
            (None, tree) if FIELDS.iter().any(|it| it.path.starts_with(&below)) => {
                self.error(line, path, &format!("expected a mapping, found {}", tree.what()));
            }
            (None, tree) if is_removed(path) && is_empty(tree) => {}
            (None, _) => self.unknown(line, path),
        }
    }

    fn field(&mut self, line: u32, field: &'static Field, tree: &Tree) {
        match value(field, tree) {
            Ok(value) => self.decoded.values.set(field.path, value, Place::Line(line)),
            Err(reason) => self.error(line, field.path, &reason),
        }
    }

    fn unknown(&mut self, line: u32, path: &str) {
        let removed = REMOVED_FIELDS.iter().find(|(name, _)| *name == path);
        let similar = FIELDS.iter().find(|field| field.path.eq_ignore_ascii_case(path));
        let reason = match (removed, similar) {
            (Some((_, reason)), _) => format!("it has no effect any more: {reason}"),
            (_, Some(field)) => format!("unknown field, ignored; did you mean {}?", field.path),
            _ => "unknown field, ignored".into(),
        };
        self.notice(line, path, &reason);
    }

    fn notice(&mut self, line: u32, path: &str, text: &str) {
        self.decoded.notices.push(Notice::warning(format!("{}:{line}: {}: {text}", self.file, shown(path))));
    }

    fn error(&mut self, line: u32, path: &str, text: &str) {
        self.decoded.errors.push(format!("{}:{line}: {}: {text}", self.file, shown(path)));
    }
}

/// A name from a file may contain anything; messages show it on one line, and shortened.
fn shown(path: &str) -> String {
    let short: String = path.chars().take(80).collect();
    if short.chars().any(char::is_control) { short.escape_debug().to_string() } else { short }
}

fn is_known(path: &str) -> bool {
    let below = format!("{path}.");
    let is_field = FIELDS.iter().any(|field| field.path == path || field.path.starts_with(&below));
    is_field || is_removed(path)
}

fn is_removed(path: &str) -> bool {
    REMOVED_FIELDS.iter().any(|(name, _)| *name == path)
}

/// The values that kubeadm writes for a field with its default.
fn is_empty(tree: &Tree) -> bool {
    matches!(tree, Tree::Integer(0)) || matches!(tree, Tree::Text(text) if matches!(&**text, "" | "0s"))
}

fn value(field: &Field, tree: &Tree) -> Result<Value, String> {
    match (field.kind, tree) {
        (Kind::Text, Tree::Text(text)) => Ok(Value::Text(text.clone())),
        (Kind::Quantity, Tree::Text(text)) => Ok(Value::Text(text.clone())),
        (Kind::Quantity, Tree::Integer(number)) => Ok(Value::Text(number.to_string())),
        (Kind::Boolean, Tree::Boolean(value)) => Ok(Value::Boolean(*value)),
        (Kind::Integer, Tree::Integer(number)) => integer(*number),
        (Kind::Integer, Tree::Number(number)) if number.fract() == 0.0 => integer(*number as i64),
        (Kind::Number, Tree::Integer(number)) => Ok(Value::Number(*number as f64)),
        (Kind::Number, Tree::Number(number)) if number.is_finite() => Ok(Value::Number(*number)),
        (Kind::Duration, Tree::Text(text)) => Span::parse(text).map(Value::Duration),
        // The only duration that may also be a number, of nanoseconds.
        (Kind::Duration, Tree::Integer(number)) if field.path == "logging.flushFrequency" => {
            Ok(Value::Duration(Span(*number)))
        }
        (Kind::List, Tree::List(items)) => {
            items.iter().map(|(_, item)| text(item)).collect::<Result<_, _>>().map(Value::List)
        }
        (Kind::Gates, Tree::Map(entries)) => entries.iter().map(gate).collect::<Result<_, _>>().map(Value::Gates),
        (Kind::Patterns, Tree::List(items)) => {
            items.iter().map(|(_, item)| pattern(item)).collect::<Result<_, _>>().map(Value::Patterns)
        }
        (kind, tree) => Err(format!("expected {}, found {}", expected(kind), tree.what())),
    }
}

fn integer(number: i64) -> Result<Value, String> {
    let number = i32::try_from(number).map_err(|_| format!("{number} is too large: at most 2147483647"))?;
    Ok(Value::Integer(number.into()))
}

fn text(tree: &Tree) -> Result<String, String> {
    match tree {
        Tree::Text(text) => Ok(text.clone()),
        other => Err(format!("the items of the list must be strings, but one is {}", other.what())),
    }
}

fn gate((_, name, tree): &(u32, String, Tree)) -> Result<(String, bool), String> {
    match tree {
        Tree::Boolean(value) => Ok((name.clone(), *value)),
        other => Err(format!("{} is {}: write true or false", shown(name), other.what())),
    }
}

fn pattern(tree: &Tree) -> Result<(String, u8), String> {
    let error = || "each item is a mapping: write {filePattern: daemon, verbosity: 4}".to_owned();
    let Tree::Map(entries) = tree else { return Err(error()) };
    let find = |name: &str| entries.iter().rfind(|(_, key, _)| key == name).map(|(_, _, value)| value);
    match (find("filePattern"), find("verbosity")) {
        (Some(Tree::Text(file)), Some(Tree::Integer(level))) => {
            Ok((file.clone(), u8::try_from(*level).map_err(|_| error())?))
        }
        _ => Err(error()),
    }
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Text => "a string",
        Kind::Boolean => "true or false",
        Kind::Integer => "an integer",
        Kind::Number => "a number",
        Kind::Duration => "a duration such as 30s",
        Kind::List | Kind::Patterns => "a list",
        Kind::Gates => "a mapping",
        Kind::Quantity => "a number of bytes",
    }
}
