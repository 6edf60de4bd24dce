//! The kinds of objects that are watched, and how each is asked for.

use bytes::Bytes;

use super::Names;
use super::messages::{EndpointSlice, Identity, Metadata, Node, Pod, Service, ServiceCidr};
use super::wire::Encoding;

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

    /// What a proxy needs, and what names need beside it.
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

    /// What one of them is called.
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

    /// Path and selection, the same as kube-proxy's. Headless Services, and those of other proxies, have names only.
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

    /// Whether we can do without: servers before 1.33 have no ServiceCIDRs, and older roles may not read them.
    pub(super) fn is_optional(self) -> bool {
        self == Self::ServiceCidrs
    }

    pub(super) fn read(self, encoding: Encoding, object: &Bytes) -> Result<Document, Broken> {
        let document = match self {
            Self::Services => encoding.read(object).map(Document::Service),
            Self::EndpointSlices => encoding.read(object).map(Document::Slice),
            Self::Node => encoding.read(object).map(Document::Node),
            Self::ServiceCidrs => encoding.read(object).map(Document::ServiceCidr),
            Self::Namespaces => encoding.read(object).map(Document::Namespace),
            Self::Pods => encoding.read(object).map(Document::Pod),
        };
        document.map_err(|reason| Broken {
            reason,
            metadata: encoding.read::<Identity>(object).ok().map(|it| Box::new(it.metadata)),
        })
    }

    pub(super) fn read_item(self, encoding: Encoding, item: &Bytes) -> Result<Document, Broken> {
        let document = match self {
            Self::Services => encoding.read_item(item).map(Document::Service),
            Self::EndpointSlices => encoding.read_item(item).map(Document::Slice),
            Self::Node => encoding.read_item(item).map(Document::Node),
            Self::ServiceCidrs => encoding.read_item(item).map(Document::ServiceCidr),
            Self::Namespaces => encoding.read_item(item).map(Document::Namespace),
            Self::Pods => encoding.read_item(item).map(Document::Pod),
        };
        let metadata = || encoding.read_item::<Identity>(item).ok().map(|identity| Box::new(identity.metadata));
        document.map_err(|reason| Broken { reason, metadata: metadata() })
    }
}

/// A name for a query. Node names are DNS names; anything else is made harmless.
pub(super) fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    name.bytes().map(escape).collect()
}

/// An object as it came, in either encoding.
#[derive(Debug)]
pub(super) enum Document {
    Service(Service),
    Slice(EndpointSlice),
    Node(Node),
    ServiceCidr(ServiceCidr),
    Namespace(Identity),
    Pod(Pod),
}

impl Document {
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
            Self::Service(message) => &message.metadata,
            Self::Slice(message) => &message.metadata,
            Self::Node(message) => &message.metadata,
            Self::ServiceCidr(message) => &message.metadata,
            Self::Namespace(message) => &message.metadata,
            Self::Pod(message) => &message.metadata,
        }
    }
}

/// An object that cannot be read, and whose it is, if that much can be read.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) reason: String,
    pub(super) metadata: Option<Box<Metadata>>,
}
