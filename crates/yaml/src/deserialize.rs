//! Types from the tree.
//!
//! The type decides what a scalar means: a string takes the text of any plain scalar but null, a bool also a quoted one.
//! Null is an empty list and an empty mapping.

use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::error::Error;
use crate::node::{Content, Entries, Entry, Items, Node};
use crate::scalar::{self, Scalar};

impl<'t> Node<'t> {
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(*self).map_err(|error| error.at(self.line()))
    }

    fn expected(&self, what: &str) -> Error {
        Error::new(self.line(), format!("expected {what}, found {}", self.kind()))
    }

    /// The text of a scalar that is not null.
    fn scalar(&self, expected: &str) -> Result<&'t str, Error> {
        match self.content() {
            Content::Plain(text) | Content::Quoted(text) if !self.is_null() => Ok(text),
            _ => Err(self.expected(expected)),
        }
    }
}

fn visit_integer<'de, V: Visitor<'de>>(number: i128, visitor: V) -> Result<V::Value, Error> {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => visitor.visit_u64(number),
        (_, Ok(number)) => visitor.visit_i64(number),
        _ => Err(de::Error::custom("the number is out of range")),
    }
}

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content() {
            Content::Quoted(text) => visitor.visit_borrowed_str(text),
            Content::Plain(text) => match Scalar::of(text) {
                Scalar::Null => visitor.visit_unit(),
                Scalar::Boolean(value) => visitor.visit_bool(value),
                Scalar::Integer(number) => visit_integer(number, visitor),
                Scalar::Number(number) if number.is_finite() => visitor.visit_f64(number),
                Scalar::Number(_) => Err(self.expected("a finite number")),
                Scalar::Text(text) => visitor.visit_borrowed_str(text),
            },
            Content::List(items) => visitor.visit_seq(Sequence(Some(items))),
            Content::Map(entries) => visitor.visit_map(Mapping { entries: Some(entries), entry: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let value = self.scalar("true or false").map(scalar::boolean)?;
        visitor.visit_bool(value.ok_or_else(|| self.expected("true or false"))?)
    }

    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.scalar("an integer").map(scalar::integer)?;
        visit_integer(number.ok_or_else(|| self.expected("an integer"))?, visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = self.scalar("a number").map(scalar::number)?;
        visitor.visit_f64(number.ok_or_else(|| self.expected("a number"))?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.scalar("a string")?)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content() {
            Content::List(items) => visitor.visit_seq(Sequence(Some(items))),
            _ if self.is_null() => visitor.visit_seq(Sequence(None)),
            _ => Err(self.expected("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.content() {
            Content::Map(entries) => visitor.visit_map(Mapping { entries: Some(entries), entry: None }),
            _ if self.is_null() => visitor.visit_map(Mapping { entries: None, entry: None }),
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

/// The items of a list, or none.
struct Sequence<'de>(Option<Items<'de>>);

impl<'de> SeqAccess<'de> for Sequence<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.0.as_mut().and_then(Iterator::next) else { return Ok(None) };
        seed.deserialize(item).map(Some).map_err(|error| error.at(item.line()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.into_iter().flatten().count())
    }
}

/// The entries of a mapping, or none.
struct Mapping<'de> {
    entries: Option<Entries<'de>>,
    entry: Option<Entry<'de>>,
}

impl<'de> MapAccess<'de> for Mapping<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.entry = self.entries.as_mut().and_then(Iterator::next);
        let Some(entry) = &self.entry else { return Ok(None) };
        seed.deserialize(Key(entry.key)).map(Some).map_err(|error| error.at(entry.line))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(entry) = self.entry.take() else { return Err(de::Error::custom("a value without a key")) };
        seed.deserialize(entry.value).map_err(|error| error.at(entry.value.line()).of(entry.key))
    }
}

struct Key<'de>(&'de str);

impl<'de> Deserializer<'de> for Key<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
