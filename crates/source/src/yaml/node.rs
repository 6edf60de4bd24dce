//! A tree of plain YAML that serde reads from.
//!
//! Anything ambiguous is an error, and every error leaves the document to serde-saphyr.

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{self, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

#[derive(Debug)]
pub(super) enum Node<'a> {
    Null,
    Plain(&'a str),
    Quoted(&'a str),
    Map(Vec<(&'a str, Node<'a>)>),
    List(Vec<Node<'a>>),
}

/// The reason does not matter: serde-saphyr finds it again and reports it.
#[derive(Debug, thiserror::Error)]
#[error("not plain YAML")]
pub(super) struct NotPlain;

impl de::Error for NotPlain {
    fn custom<T: std::fmt::Display>(_: T) -> Self {
        Self
    }
}

impl<'a> IntoDeserializer<'a, NotPlain> for &Node<'a> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'a> Node<'a> {
    fn text(&self) -> Result<&'a str, NotPlain> {
        match self {
            Self::Plain(text) | Self::Quoted(text) => Ok(text),
            _ => Err(NotPlain),
        }
    }

    fn integer(&self) -> Result<i64, NotPlain> {
        match self {
            Self::Plain(text) => decimal(text).ok_or(NotPlain),
            _ => Err(NotPlain),
        }
    }
}

/// Numbers that every YAML version reads alike: no plus sign, no leading zero, no underscore, no other base.
fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    (plain && digits.len() < 18).then(|| text.parse().ok()).flatten()
}

/// Words that no YAML version reads as a bool, a null or a number.
fn is_text(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "y", "n", "null"];
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        && !text.eq_ignore_ascii_case("nan")
        && !text.to_ascii_lowercase().starts_with("inf")
}

impl<'de> Deserializer<'de> for &Node<'de> {
    type Error = NotPlain;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self {
            Node::Null => visitor.visit_unit(),
            Node::Quoted(text) => visitor.visit_borrowed_str(text),
            Node::Plain(text) if is_text(text) => visitor.visit_borrowed_str(text),
            Node::Plain(text) => visitor.visit_i64(decimal(text).ok_or(NotPlain)?),
            Node::Map(_) => self.deserialize_map(visitor),
            Node::List(_) => self.deserialize_seq(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self {
            Node::Null => visitor.visit_none(),
            node => visitor.visit_some(node),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        match self {
            Node::Plain("true") => visitor.visit_bool(true),
            Node::Plain("false") => visitor.visit_bool(false),
            _ => Err(NotPlain),
        }
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_i64(self.integer()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        self.deserialize_str(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        let Node::Map(entries) = self else { return Err(NotPlain) };
        let entries = entries.iter().map(|(key, value)| (BorrowedStrDeserializer::new(key), value));
        visitor.visit_map(MapDeserializer::new(entries))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NotPlain> {
        self.deserialize_map(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        let Node::List(items) = self else { return Err(NotPlain) };
        visitor.visit_seq(SeqDeserializer::new(items.iter()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NotPlain> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct newtype_struct tuple
        tuple_struct enum identifier
    }
}
