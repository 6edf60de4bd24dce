//! Types from the tree.
//!
//! The type decides what a scalar means: a string takes the text of any plain scalar but null, a bool also a quoted one.
//! Null is an empty list and an empty mapping.

use std::borrow::Cow;

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::error::Error;
use crate::node::{Content, Entry, Node};
use crate::scalar::{self, Scalar};

impl<'de> Node<'de> {
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self).map_err(|error| error.at(self.line))
    }

    fn expected(&self, what: &str) -> Error {
        Error::new(self.line, format!("expected {what}, found {}", self.kind()))
    }

    /// The text of a scalar that is not null.
    fn text(&self, expected: &str) -> Result<&Cow<'de, str>, Error> {
        match &self.content {
            Content::Plain(text) if !scalar::is_null(text) => Ok(text),
            Content::Quoted(text) => Ok(text),
            _ => Err(self.expected(expected)),
        }
    }
}

fn visit_text<'de, V: Visitor<'de>>(text: &Cow<'de, str>, visitor: V) -> Result<V::Value, Error> {
    match text {
        Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
        Cow::Owned(text) => visitor.visit_str(text),
    }
}

fn visit_integer<'de, V: Visitor<'de>>(number: i128, visitor: V) -> Result<V::Value, Error> {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => visitor.visit_u64(number),
        (_, Ok(number)) => visitor.visit_i64(number),
        _ => Err(de::Error::custom("the number is out of range")),
    }
}

impl<'de> Deserializer<'de> for &Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.content {
            Content::Quoted(text) => visit_text(text, visitor),
            Content::Plain(text) => match Scalar::of(text) {
                Scalar::Null => visitor.visit_unit(),
                Scalar::Boolean(value) => visitor.visit_bool(value),
                Scalar::Integer(number) => visit_integer(number, visitor),
                Scalar::Number(number) if number.is_finite() => visitor.visit_f64(number),
                Scalar::Number(_) => Err(self.expected("a finite number")),
                Scalar::Text(_) => visit_text(text, visitor),
            },
            Content::List(items) => visitor.visit_seq(Items(items.iter())),
            Content::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), entry: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.text("true or false").map(|text| scalar::boolean(text))?;
        visitor.visit_bool(value.ok_or_else(|| self.expected("true or false"))?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.text("an integer").map(|text| scalar::integer(text))?;
        visit_integer(number.ok_or_else(|| self.expected("an integer"))?, visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.text("a number").map(|text| scalar::number(text))?;
        visitor.visit_f64(number.ok_or_else(|| self.expected("a number"))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visit_text(self.text("a string")?, visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.content {
            Content::List(items) => visitor.visit_seq(Items(items.iter())),
            _ if self.is_null() => visitor.visit_seq(Items([].iter())),
            _ => Err(self.expected("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match &self.content {
            Content::Map(entries) => visitor.visit_map(Entries { entries: entries.iter(), entry: None }),
            _ if self.is_null() => visitor.visit_map(Entries { entries: [].iter(), entry: None }),
            _ => Err(self.expected("a mapping")),
        }
    }

    fn deserialize_i8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u8<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u16<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_i64(visitor)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier
    }
}

struct Items<'t, 'de>(std::slice::Iter<'t, Node<'de>>);

impl<'de> SeqAccess<'de> for Items<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.0.next() else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| error.at(item.line))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Entries<'t, 'de> {
    entries: std::slice::Iter<'t, Entry<'de>>,
    entry: Option<&'t Entry<'de>>,
}

impl<'de> MapAccess<'de> for Entries<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.entry = self.entries.next();
        let Some(entry) = self.entry else { return Ok(None) };
        seed.deserialize(Key(&entry.key)).map(Some).map_err(|error| error.at(entry.line))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(entry) = self.entry.take() else { return Err(de::Error::custom("a value without a key")) };
        seed.deserialize(&entry.value).map_err(|error| error.at(entry.value.line).of(&entry.key))
    }
}

struct Key<'t, 'de>(&'t Cow<'de, str>);

impl<'de> Deserializer<'de> for Key<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visit_text(self.0, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
