//! The values of fields and flags: their types, how they are parsed, and how they are written as JSON.

use std::collections::BTreeMap;

use serde_json::json;

use crate::span::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Boolean,
    Integer,
    Number,
    Duration,
    List,
    /// Feature gates: names with true or false.
    Gates,
    /// Verbosities by file: `pattern=N`.
    Patterns,
    /// A Kubernetes quantity in bytes: 512, 2Ki.
    Quantity,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Duration(Span),
    List(Vec<String>),
    Gates(BTreeMap<String, bool>),
    Patterns(Vec<(String, u8)>),
}

impl Value {
    /// Parses the text of a flag or of a table; an error contains what to write.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        Ok(match kind {
            Kind::Text | Kind::Quantity => Self::Text(text.into()),
            Kind::Boolean => Self::Boolean(parse_boolean(text)?),
            Kind::Integer => Self::Integer(parse_integer(text)?),
            Kind::Number => Self::Number(parse_number(text)?),
            Kind::Duration => Self::Duration(Span::parse(text)?),
            Kind::List => Self::List(parse_list(text)),
            Kind::Gates => Self::Gates(parse_gates(text)?),
            Kind::Patterns => Self::Patterns(parse_patterns(text)?),
        })
    }

    /// A repeated flag: lists are appended, otherwise the last value wins.
    pub(crate) fn followed_by(self, next: Self) -> Self {
        match (self, next) {
            (Self::List(mut all), Self::List(more)) => {
                all.extend(more);
                Self::List(all)
            }
            (Self::Gates(mut all), Self::Gates(more)) => {
                all.extend(more);
                Self::Gates(all)
            }
            (_, next) => next,
        }
    }

    /// Whether it is the zero value of Go.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Boolean(value) => !value,
            Self::Integer(value) => *value == 0,
            Self::Number(value) => *value == 0.0,
            Self::Duration(span) => span.0 == 0,
            Self::List(items) => items.is_empty(),
            Self::Gates(gates) => gates.is_empty(),
            Self::Patterns(patterns) => patterns.is_empty(),
        }
    }

    /// In the format of the file; an empty list is written as `null`, as in kube-proxy.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Boolean(value) => json!(value),
            Self::Integer(value) => json!(value),
            Self::Number(value) if value.fract() == 0.0 && value.abs() < 1e15 => json!(*value as i64),
            Self::Number(value) => json!(value),
            Self::Duration(span) => json!(span.to_string()),
            Self::List(items) if items.is_empty() => serde_json::Value::Null,
            Self::List(items) => json!(items),
            Self::Gates(gates) => json!(gates),
            Self::Patterns(patterns) => patterns.iter().map(|(file, level)| pattern_json(file, *level)).collect(),
        }
    }

    /// In the format of a flag.
    pub fn to_text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Duration(span) => span.to_string(),
            Self::List(items) => items.join(","),
            Self::Gates(gates) => joined(gates.iter().map(|(name, value)| format!("{name}={value}"))),
            Self::Patterns(patterns) => joined(patterns.iter().map(|(file, level)| format!("{file}={level}"))),
        }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(",")
}

fn pattern_json(file: &str, level: u8) -> serde_json::Value {
    json!({ "filePattern": file, "verbosity": level })
}

/// The words that Go accepts for true and false.
pub(crate) fn parse_boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false: write true or false")),
    }
}

fn parse_integer(text: &str) -> Result<i64, String> {
    let number = text.parse::<i32>().map_err(|_| format!("{text:?} is not a 32-bit integer"))?;
    Ok(number.into())
}

fn parse_number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|it| it.is_finite());
    number.ok_or_else(|| format!("{text:?} is not a number: write for example 5 or 0.5"))
}

/// Comma separated; an item in double quotes may contain commas, and two quotes in it stand for one.
pub(crate) fn parse_list(text: &str) -> Vec<String> {
    if text.is_empty() {
        return Vec::new();
    }
    let mut items = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let item = items.last_mut().expect("there is always one");
        match letter {
            '"' if is_quoted && letters.next_if_eq(&'"').is_some() => item.push('"'),
            '"' if is_quoted || item.is_empty() => is_quoted = !is_quoted,
            ',' if !is_quoted => items.push(String::new()),
            other => item.push(other),
        }
    }
    items
}

fn parse_gates(text: &str) -> Result<BTreeMap<String, bool>, String> {
    let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    parts.map(parse_gate).collect()
}

fn parse_gate(part: &str) -> Result<(String, bool), String> {
    let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} has no value: write {part}=true"))?;
    let value = parse_boolean(value.trim()).map_err(|error| format!("feature gate {name}: {error}"))?;
    Ok((name.trim().into(), value))
}

fn parse_patterns(text: &str) -> Result<Vec<(String, u8)>, String> {
    let error = |part: &str| format!("{part:?} is not PATTERN=N: write for example daemon=4");
    let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    parts
        .map(|part| {
            let (file, level) = part.split_once('=').filter(|(file, _)| !file.is_empty()).ok_or_else(|| error(part))?;
            Ok((file.into(), level.parse().map_err(|_| error(part))?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_comma_separated_values() {
        assert_eq!(parse_list("a,b"), ["a", "b"]);
        assert_eq!(parse_list("\"a,b\",c"), ["a,b", "c"]);
        assert_eq!(parse_list("\"say \"\"x\"\"\""), ["say \"x\""]);
        assert_eq!(parse_list("a,"), ["a", ""]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn gates_are_names_with_true_or_false() {
        let gates = parse_gates("A=true, B=f,").expect("good");
        assert_eq!(gates, BTreeMap::from([("A".to_owned(), true), ("B".to_owned(), false)]));
        assert!(parse_gates("A").is_err());
        assert!(parse_gates("A=maybe").is_err());
    }
}
