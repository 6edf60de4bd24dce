//! What every object has.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::field::{Field, Labels, nullable, objects};

objects! {
    Metadata {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "3")]
        namespace: String,
        #[prost(string, tag = "6")]
        resource_version: String,
        #[prost(message, optional, tag = "9")]
        deletion_timestamp: Option<Time>,
        #[prost(btree_map = "string, string", tag = "11")]
        labels: Labels,
        #[prost(btree_map = "string, string", tag = "12")]
        annotations: Labels,
    }

    /// An object of any kind: a Namespace, a bookmark, or an object that is malformed elsewhere.
    Identity {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
    }
}

impl Metadata {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

/// What identifies an object in JSON and YAML. In protobuf, kind and version are in the envelope.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Header {
    #[serde(deserialize_with = "Field::read")]
    pub(crate) api_version: String,
    #[serde(deserialize_with = "Field::read")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "Field::read")]
    pub(crate) metadata: Metadata,
}

/// A timestamp of which only the presence counts.
#[derive(prost::Message)]
pub(crate) struct Time {}

nullable!(Option<Time>);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(from).map(|_| Self {})
    }
}
