//! The sets and maps of the table: the only place where Services appear.

use portolan_kernel::nftables::{SetData, SetSpec};
use portolan_model::Family;
use portolan_plan::Pool;

use super::dispatch_key::{DISPATCH_KEY, PADDED_DISPATCH_KEY};
use super::fields::{ENDPOINT, Field, join, kinds, note};
use super::kinds::{Kind, concatenated_length, concatenated_type};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetName {
    /// VIP frontend → its dispatch key.
    Services,
    /// Node port → its dispatch key.
    NodePorts,
    /// Dispatch key → its chain. The kernel's name of this map is older than this one, and stays.
    Ways,
    /// VIP frontend and slot → endpoint.
    Endpoints,
    /// Node port and slot → endpoint.
    NodePortEndpoints,
    /// Addresses that only Services have.
    ClusterIps,
    /// Where node ports are served, unless everywhere.
    NodePortAddresses,
    /// Frontend and source that may use it.
    Sources,
    /// Endpoints that may be clients of their own Service.
    Hairpins,
    /// VIP frontends with session affinity or turns → the chain of their Service port that finds the endpoint of a client, or
    /// whose turn it is, in the cluster pool.
    Recalls,
    /// The same for the local pool.
    LocalRecalls,
    /// The same two for node ports.
    NodePortRecalls,
    NodePortLocalRecalls,
    /// Endpoint and pool: what a client with session affinity can be assigned to.
    Members,
    /// VIP frontends with session affinity → the chain that records their clients.
    Learners,
    /// The same for node ports.
    NodePortLearners,
    /// Destination and endpoint that served it, with a counter of new connections. Filled by the kernel itself.
    Connections,
    /// The same, with a counter of what clients sent.
    Requests,
    /// The same, with a counter of replies.
    Replies,
}

/// The limit that the kernel gives to a set without one as soon as a rule fills it. Such a set starts small and grows,
/// while one with a limit has room for all from the start: a megabyte each.
pub(super) const LEARNED_SIZE: u32 = 65_535;

/// The original destination and the endpoint, from the connection's entry: the same for every packet in both directions.
pub(super) const PAIR: &[Field] =
    &[Field::OriginalDestination, Field::ConnectionProtocol, Field::OriginalPort, Field::ReplySource, Field::ReplyPort];

impl SetName {
    pub const ALL: [Self; 19] = [
        Self::Services,
        Self::NodePorts,
        Self::Ways,
        Self::Endpoints,
        Self::NodePortEndpoints,
        Self::ClusterIps,
        Self::NodePortAddresses,
        Self::Sources,
        Self::Hairpins,
        Self::Recalls,
        Self::LocalRecalls,
        Self::NodePortRecalls,
        Self::NodePortLocalRecalls,
        Self::Members,
        Self::Learners,
        Self::NodePortLearners,
        Self::Connections,
        Self::Requests,
        Self::Replies,
    ];

    /// The sets that count, in the order of [`crate::traffic::Usage`].
    pub(super) const COUNTED: [Self; 3] = [Self::Connections, Self::Requests, Self::Replies];

    /// The map by which a pool chain finds the chain of a Service port with session affinity or turns.
    pub(super) fn recalls(is_node_port: bool, pool: Pool) -> Self {
        match (is_node_port, pool) {
            (false, Pool::Cluster) => Self::Recalls,
            (false, Pool::Local) => Self::LocalRecalls,
            (true, Pool::Cluster) => Self::NodePortRecalls,
            (true, Pool::Local) => Self::NodePortLocalRecalls,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::NodePorts => "nodeports",
            Self::Ways => "ways",
            Self::Endpoints => "endpoints",
            Self::NodePortEndpoints => "nodeport-endpoints",
            Self::ClusterIps => "cluster-ips",
            Self::NodePortAddresses => "nodeport-addresses",
            Self::Sources => "sources",
            Self::Hairpins => "hairpins",
            Self::Recalls => "recalls",
            Self::LocalRecalls => "local-recalls",
            Self::NodePortRecalls => "nodeport-recalls",
            Self::NodePortLocalRecalls => "nodeport-local-recalls",
            Self::Members => "members",
            Self::Learners => "learners",
            Self::NodePortLearners => "nodeport-learners",
            Self::Connections => "connections",
            Self::Requests => "requests",
            Self::Replies => "replies",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|set| set.name() == name)
    }

    /// The fields of a packet that are its key.
    fn fields(self) -> &'static [Field] {
        use Field::{Choice, Destination, Port, Protocol, Source};
        match self {
            Self::Services | Self::Recalls | Self::LocalRecalls | Self::Learners => &[Destination, Protocol, Port],
            Self::NodePorts | Self::NodePortRecalls | Self::NodePortLocalRecalls | Self::NodePortLearners => {
                &[Protocol, Port]
            }
            Self::Endpoints => &[Destination, Protocol, Port, Choice],
            Self::NodePortEndpoints => &[Protocol, Port, Choice],
            Self::ClusterIps | Self::NodePortAddresses => &[Destination],
            Self::Sources => &[Destination, Protocol, Port, Source],
            Self::Hairpins => &[Source, Destination],
            Self::Members => &[Destination, Port, Choice],
            Self::Connections | Self::Requests | Self::Replies => PAIR,
            // Its key comes out of another map.
            Self::Ways => &[],
        }
    }

    pub(super) fn key(self) -> Vec<Kind> {
        if self == Self::Ways { DISPATCH_KEY.to_vec() } else { kinds(self.fields()) }
    }

    pub(super) fn data(self) -> Data {
        match self {
            Self::Services | Self::NodePorts => Data::DispatchKey,
            Self::Ways | Self::Learners | Self::NodePortLearners => Data::Verdict,
            Self::Recalls | Self::LocalRecalls | Self::NodePortRecalls | Self::NodePortLocalRecalls => Data::Verdict,
            Self::Endpoints | Self::NodePortEndpoints => Data::Endpoint,
            Self::ClusterIps | Self::NodePortAddresses | Self::Sources | Self::Hairpins => Data::None,
            Self::Members | Self::Connections | Self::Requests | Self::Replies => Data::None,
        }
    }

    /// Every element is a counter. Packets add them: they are never objects.
    pub(super) fn is_counted(self) -> bool {
        Self::COUNTED.contains(&self)
    }

    /// Several ports of a Service, or several Services, may need the same element.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::ClusterIps | Self::Hairpins | Self::Ways | Self::Members)
    }

    /// The line by which `nft list` shows the type.
    pub(super) fn type_text(self, family: Family) -> String {
        match self.user_data(family).is_empty() {
            true => format!("type {}{}", types(&self.key(), family), self.data().type_text(family)),
            false if self.data() == Data::None => format!("typeof {}", join(self.fields(), family)),
            false => format!("typeof {} : {}", join(self.fields(), family), join(ENDPOINT, family)),
        }
    }

    pub(super) fn spec(self, family: Family) -> SetSpec {
        SetSpec {
            key_type: concatenated_type(&self.key(), family),
            key_fields: self.key().iter().map(|kind| kind.length(family)).collect(),
            data: self.data().spec(family),
            interval: self == Self::Sources,
            dynamic: self.is_counted(),
            timeout: false,
            size: None,
            user_data: self.user_data(family),
        }
    }

    /// A slot number has no type name, so `nft` needs the expressions that make up the key.
    fn user_data(self, family: Family) -> Vec<u8> {
        match self {
            Self::Endpoints | Self::NodePortEndpoints => typeof_user_data(family, self.fields()),
            Self::Members => typeof_key_user_data(family, self.fields()),
            _ => Vec::new(),
        }
    }
}

/// The map of one Service port from client to endpoint. Packets fill it.
pub(super) fn clients_spec(family: Family) -> SetSpec {
    let key = kinds(&[Field::Source]);
    SetSpec {
        key_type: concatenated_type(&key, family),
        key_fields: key.iter().map(|kind| kind.length(family)).collect(),
        data: Data::Endpoint.spec(family),
        dynamic: true,
        timeout: true,
        ..SetSpec::default()
    }
}

/// The line by which `nft list` shows the type of such a map.
pub(super) fn clients_type_text(family: Family) -> String {
    format!("type {}{}", types(&kinds(&[Field::Source]), family), Data::Endpoint.type_text(family))
}

/// Whether the kernel holds that set, possibly with the limit that it gives to a set which packets fill.
pub(super) fn is_layout(wanted: &SetSpec, found: &SetSpec) -> bool {
    let mut wanted = wanted.clone();
    if wanted.dynamic && found.size == Some(LEARNED_SIZE) {
        wanted.size = found.size;
    }
    wanted == *found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    None,
    Verdict,
    DispatchKey,
    Endpoint,
}

impl Data {
    fn spec(self, family: Family) -> SetData {
        match self {
            Self::None => SetData::None,
            Self::Verdict => SetData::Verdict,
            Self::DispatchKey => value_spec(PADDED_DISPATCH_KEY, family),
            Self::Endpoint => value_spec(&kinds(ENDPOINT), family),
        }
    }

    fn type_text(self, family: Family) -> String {
        match self {
            Self::None => String::new(),
            Self::Verdict => " : verdict".into(),
            Self::DispatchKey => format!(" : {}", types(PADDED_DISPATCH_KEY, family)),
            Self::Endpoint => format!(" : {}", types(&kinds(ENDPOINT), family)),
        }
    }
}

fn value_spec(kinds: &[Kind], family: Family) -> SetData {
    SetData::Value { data_type: concatenated_type(kinds, family), length: concatenated_length(kinds, family) }
}

fn types(kinds: &[Kind], family: Family) -> String {
    kinds.iter().map(|kind| kind.type_text(family)).collect::<Vec<_>>().join(" . ")
}

/// `nft`'s own notes about a set: byte orders (left unsaid), then the expressions of key and data.
fn typeof_user_data(family: Family, key: &[Field]) -> Vec<u8> {
    [
        note(0, &[0; 4]),
        note(1, &[0; 4]),
        note(3, &concatenation_note(family, key)),
        note(4, &concatenation_note(family, ENDPOINT)),
        note(6, &[0; 4]),
    ]
    .concat()
}

/// The same for a set, which has no data.
fn typeof_key_user_data(family: Family, key: &[Field]) -> Vec<u8> {
    [note(0, &[0; 4]), note(3, &concatenation_note(family, key))].concat()
}

fn concatenation_note(family: Family, fields: &[Field]) -> Vec<u8> {
    const CONCATENATION: u32 = 13;
    let parts: Vec<Vec<u8>> =
        fields.iter().enumerate().map(|(index, field)| note(index as u8, &field.typeof_note(family))).collect();
    [note(0, &CONCATENATION.to_ne_bytes()), note(1, &parts.concat())].concat()
}
