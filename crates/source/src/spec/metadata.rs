//! What every object has.

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::field::{Field, Labels, nullable, objects, text};

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
        #[prost(message, repeated, tag = "11")]
        labels: Labels,
        #[prost(message, repeated, tag = "12")]
        annotations: Labels,
    }

    /// Enough to remove an object, and to say which one is malformed.
    NamedObject {
        #[prost(message, required, tag = "1")]
        metadata: NameAndVersion,
    }

    NameAndVersion {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(string, tag = "3")]
        namespace: String,
        #[prost(string, tag = "6")]
        resource_version: String,
    }

    /// An object of any kind: a Namespace, a bookmark, or an object that is malformed elsewhere.
    Identity {
        #[prost(message, required, tag = "1")]
        metadata: Metadata,
    }
}

impl Metadata {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        text(&self.labels, key)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        text(&self.annotations, key)
    }
}

impl From<NameAndVersion> for Metadata {
    fn from(known: NameAndVersion) -> Self {
        let NameAndVersion { name, namespace, resource_version } = known;
        Self { name, namespace, resource_version, ..Self::default() }
    }
}

/// What identifies an object in JSON and YAML, without its labels, which are read with the object. In protobuf, kind and version
/// are in the envelope.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Header {
    #[serde(deserialize_with = "Field::read")]
    pub(crate) api_version: String,
    #[serde(deserialize_with = "Field::read")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "Field::read")]
    pub(crate) metadata: NameAndVersion,
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
