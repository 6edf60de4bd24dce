//! How a field is read from JSON and YAML: null means absent, as it does to the API server.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

/// Labels, annotations and selectors.
pub(crate) type Labels = Vec<Label>;

/// One of them. Its bytes are not checked until it is used: an annotation that is not UTF-8 must not cost the object.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Label {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl Label {
    /// Key and value, if both are text.
    fn text(&self) -> Option<(&str, &str)> {
        Some((str::from_utf8(&self.key).ok()?, str::from_utf8(&self.value).ok()?))
    }
}

/// All labels that are text.
pub(crate) fn texts(labels: &[Label]) -> impl Iterator<Item = (&str, &str)> {
    labels.iter().filter_map(Label::text)
}

/// The value of a label; of several with the same key, the last counts.
pub(crate) fn text<'a>(labels: &'a [Label], key: &str) -> Option<&'a str> {
    labels.iter().rfind(|label| label.key == key.as_bytes()).and_then(Label::text).map(|(_, value)| value)
}

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

impl Field for Labels {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_option(LabelsVisitor)
    }
}

/// A label without a value is an empty one. Labels are sorted by key; of several with the same key, the last is kept.
struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a mapping of strings")
    }

    fn visit_none<E: de::Error>(self) -> Result<Labels, E> {
        Ok(Labels::new())
    }

    fn visit_unit<E: de::Error>(self) -> Result<Labels, E> {
        Ok(Labels::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Labels, D::Error> {
        from.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Labels, A::Error> {
        let mut labels = Labels::new();
        while let Some((key, value)) = entries.next_entry::<String, Option<String>>()? {
            labels.push(Label { key: key.into_bytes(), value: value.unwrap_or_default().into_bytes() });
        }
        labels.sort_by(|one, other| one.key.cmp(&other.key));
        labels.dedup_by(|later, earlier| {
            let is_same = later.key == earlier.key;
            if is_same {
                std::mem::swap(later, earlier);
            }
            is_same
        });
        Ok(labels)
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
