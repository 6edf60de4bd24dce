//! The watched resources: their URLs and their objects.

use bytes::Bytes;

use super::options::Names;
use super::wire::Encoding;
use crate::spec::{EndpointSlice, HasMetadata, Identity, Metadata, Node, Pod, Service, ServiceCidr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Services,
    EndpointSlices,
    Node,
    ServiceCidrs,
    Namespaces,
    Pods,
}

impl Resource {
    pub(super) const ALL: [Self; 6] =
        [Self::Services, Self::EndpointSlices, Self::Node, Self::ServiceCidrs, Self::Namespaces, Self::Pods];

    /// What a proxy needs, and what DNS needs beside it.
    pub(super) fn wanted(names: Names) -> &'static [Self] {
        match names {
            Names::None | Names::OfServices => &Self::ALL[..4],
            Names::OfNamespaces => &Self::ALL[..5],
            Names::OfPods => &Self::ALL,
        }
    }

    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Services => "Services",
            Self::EndpointSlices => "EndpointSlices",
            Self::Node => "Node",
            Self::ServiceCidrs => "ServiceCIDRs",
            Self::Namespaces => "Namespaces",
            Self::Pods => "Pods",
        }
    }

    /// The kind of one object, for messages.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Services => "Service",
            Self::EndpointSlices => "EndpointSlice",
            Self::Node => "Node",
            Self::ServiceCidrs => "ServiceCIDR",
            Self::Namespaces => "Namespace",
            Self::Pods => "Pod",
        }
    }

    /// Path and selectors, the same as kube-proxy's. Headless Services and those of other proxies are needed for DNS only.
    pub(super) fn url(self, node_name: &str, names: Names) -> String {
        match self {
            Self::Services if names != Names::None => "/api/v1/services?".to_owned(),
            Self::EndpointSlices if names != Names::None => "/apis/discovery.k8s.io/v1/endpointslices?".to_owned(),
            Self::Services => "/api/v1/services?fieldSelector=spec.clusterIP%21%3DNone\
                &labelSelector=%21service.kubernetes.io%2Fservice-proxy-name"
                .to_owned(),
            Self::EndpointSlices => "/apis/discovery.k8s.io/v1/endpointslices\
                ?labelSelector=%21service.kubernetes.io%2Fheadless"
                .to_owned(),
            Self::Node => format!("/api/v1/nodes?fieldSelector=metadata.name%3D{}", escaped(node_name)),
            Self::ServiceCidrs => "/apis/networking.k8s.io/v1/servicecidrs?".to_owned(),
            Self::Namespaces => "/api/v1/namespaces?".to_owned(),
            Self::Pods => {
                "/api/v1/pods?fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed".to_owned()
            }
        }
    }

    /// Servers before 1.33 have no ServiceCIDRs, and older roles do not permit reading them.
    pub(super) fn is_optional(self) -> bool {
        self == Self::ServiceCidrs
    }

    /// An object of a watch event.
    pub(super) fn read(self, encoding: Encoding, object: &Bytes) -> Result<Decoded, Malformed> {
        let object = encoding.unwrap(object).map_err(|reason| Malformed { reason, metadata: None })?;
        self.read_item(encoding, &object)
    }

    /// An item of a list.
    pub(super) fn read_item(self, encoding: Encoding, item: &Bytes) -> Result<Decoded, Malformed> {
        let decoded = match self {
            Self::Services => encoding.read(item).map(Decoded::Service),
            Self::EndpointSlices => encoding.read(item).map(Decoded::Slice),
            Self::Node => encoding.read(item).map(Decoded::Node),
            Self::ServiceCidrs => encoding.read(item).map(Decoded::ServiceCidr),
            Self::Namespaces => encoding.read(item).map(Decoded::Namespace),
            Self::Pods => encoding.read(item).map(Decoded::Pod),
        };
        decoded.map_err(|reason| Malformed { reason, metadata: encoding.read_name(item).map(Box::new) })
    }
}

/// A value of a query. Node names are DNS names; anything else is percent-encoded.
pub(super) fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// An object, decoded and not yet converted.
#[derive(Debug)]
pub(super) enum Decoded {
    Service(Service),
    Slice(EndpointSlice),
    Node(Node),
    ServiceCidr(ServiceCidr),
    Namespace(Identity),
    Pod(Pod),
}

impl Decoded {
    pub(super) fn resource(&self) -> Resource {
        match self {
            Self::Service(_) => Resource::Services,
            Self::Slice(_) => Resource::EndpointSlices,
            Self::Node(_) => Resource::Node,
            Self::ServiceCidr(_) => Resource::ServiceCidrs,
            Self::Namespace(_) => Resource::Namespaces,
            Self::Pod(_) => Resource::Pods,
        }
    }

    pub(super) fn metadata(&self) -> &Metadata {
        match self {
            Self::Service(object) => object.metadata(),
            Self::Slice(object) => object.metadata(),
            Self::Node(object) => object.metadata(),
            Self::ServiceCidr(object) => object.metadata(),
            Self::Namespace(object) => object.metadata(),
            Self::Pod(object) => object.metadata(),
        }
    }
}

/// An object that cannot be decoded, with its name and version if those can.
#[derive(Debug)]
pub(super) struct Malformed {
    pub(super) reason: String,
    pub(super) metadata: Option<Box<Metadata>>,
}
