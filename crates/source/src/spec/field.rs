//! How a field is read from JSON and YAML: null means absent, as it does to the API server.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// Labels, annotations and selectors.
pub(crate) type Labels = BTreeMap<String, String>;

pub(crate) trait Field: Sized {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error>;
}

/// Types whose absent value is their default.
macro_rules! nullable {
    ($($type:ty),*) => {$(
        impl $crate::spec::field::Field for $type {
            fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let value: Option<Self> = serde::Deserialize::deserialize(from)?;
                Ok(value.unwrap_or_default())
            }
        }
    )*};
}

/// Message types, each with how it is read from protobuf (`prost`) and from JSON and YAML (`serde`).
macro_rules! objects {
    ($($(#[$about:meta])* $name:ident { $($(#[$rule:meta])* $field:ident: $type:ty),* $(,)? })*) => {$(
        $(#[$about])*
        #[derive(prost::Message, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(crate) struct $name {
            $($(#[$rule])* #[serde(deserialize_with = "crate::spec::field::Field::read")] pub(crate) $field: $type,)*
        }
        $crate::spec::field::nullable!($name, Option<$name>, Vec<$name>);
    )*};
}

pub(super) use {nullable, objects};

nullable!(String, Option<String>, Vec<String>, bool, Option<bool>);

/// A label without a value is an empty one.
impl Field for Labels {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let labels: Option<BTreeMap<String, Option<String>>> = Deserialize::deserialize(from)?;
        Ok(labels.into_iter().flatten().map(|(key, value)| (key, value.unwrap_or_default())).collect())
    }
}

impl Field for Option<i32> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number: Option<Number> = Deserialize::deserialize(from)?;
        Ok(number.map(|number| number.0))
    }
}

/// A number that is written as one: not as a string, and without a fraction.
struct Number(i32);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl Visitor<'_> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an integer")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Number, E> {
        i32::try_from(number).map(Number).map_err(|_| E::custom(format_args!("{number} is out of range")))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Number, E> {
        i32::try_from(number).map(Number).map_err(|_| E::custom(format_args!("{number} is out of range")))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Number, E> {
        Err(E::custom(format_args!("{number} is not an integer")))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Number, E> {
        Err(E::custom(format_args!("{text:?} is not an integer")))
    }
}
