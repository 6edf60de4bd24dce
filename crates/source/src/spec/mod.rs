//! The fields of Kubernetes objects that matter here: one type per object, decodable from protobuf, JSON and YAML.
//!
//! The tags are those of the published protocol buffers, which never change; the names are those of the JSON form. Fields
//! that are not listed are skipped. Nothing is validated here: see [`crate::convert`].

mod endpoints;
mod field;
mod list;
mod metadata;
mod node;
mod pod;
mod service;

pub(crate) use endpoints::{
    Conditions, Endpoint, EndpointPort, EndpointSlice, Endpoints, Hints, Named, ObjectReference, Subset, SubsetAddress,
};
pub(crate) use field::texts;
pub(crate) use list::{ListMetadata, Status};
pub(crate) use metadata::{Header, Identity, Metadata, NamedObject};
pub(crate) use node::{Node, NodeAddress, NodeSpec, ServiceCidr};
pub(crate) use pod::{Container, ContainerPort, Pod, PodIp, PodSpec, PodStatus};
pub(crate) use service::{IntOrString, Service, ServicePort, ServiceSpec};

pub(crate) trait HasMetadata {
    fn metadata(&self) -> &Metadata;
}

macro_rules! has_metadata {
    ($($object:ident),*) => {$(
        impl HasMetadata for $object {
            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        }
    )*};
}

has_metadata!(Service, EndpointSlice, Endpoints, Pod, Node, ServiceCidr, Identity);
