//! Tags: those of the core schema decide what a scalar is, all others have no effect.

use std::borrow::Cow;

use granit_parser::{ScalarStyle, Tag};

use crate::scalar;
use crate::tree::Kind;

type OptionalTag<'a> = Option<Cow<'a, Tag>>;

/// Whether a scalar is plain, and its text.
pub(crate) fn scalar<'a>(
    text: Cow<'a, str>,
    style: ScalarStyle,
    tag: &OptionalTag<'a>,
) -> Result<(Kind, Cow<'a, str>), String> {
    let mismatch = |name: &str| Err(format!("the value does not match its tag !!{name}"));
    match name(tag).as_deref() {
        Some("str" | "!") => Ok((Kind::Quoted, text)),
        Some("null") => Ok((Kind::Null, text)),
        Some("bool") if scalar::boolean(&text).is_some() => Ok((Kind::Plain, text)),
        Some("int") if scalar::integer(&text).is_some() => Ok((Kind::Plain, text)),
        Some("float") if scalar::integer(&text).is_some() => Ok((Kind::Plain, Cow::Owned(format!("{text}.0")))),
        Some("float") if scalar::number(&text).is_some() => Ok((Kind::Plain, text)),
        Some(name @ ("bool" | "int" | "float" | "map" | "seq")) => mismatch(name),
        Some("binary") => Err("the tag !!binary is not supported".to_owned()),
        _ if style == ScalarStyle::Plain && scalar::is_null(&text) => Ok((Kind::Null, text)),
        _ if style == ScalarStyle::Plain => Ok((Kind::Plain, text)),
        _ => Ok((Kind::Quoted, text)),
    }
}

/// Refuses a tag of the core schema that is not the one of this kind of collection.
pub(crate) fn collection(tag: &OptionalTag<'_>, own: &str) -> Result<(), String> {
    match name(tag).as_deref() {
        Some(name @ ("str" | "null" | "bool" | "int" | "float" | "binary" | "map" | "seq")) if name != own => {
            Err(format!("the value does not match its tag !!{name}"))
        }
        _ => Ok(()),
    }
}

/// The name of a tag of YAML itself, and `!` for the tag that makes a scalar a string.
fn name<'t>(tag: &'t OptionalTag<'_>) -> Option<Cow<'t, str>> {
    let tag = tag.as_deref()?;
    let of_yaml = tag.suffix_in_namespace("tag:yaml.org,2002:");
    of_yaml.or_else(|| (tag.to_string() == "!").then_some(Cow::Borrowed("!")))
}
