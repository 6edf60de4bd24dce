//! The objects of the fake API server, and how it behaves.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initial {
    Sent,
    Refused(u16),
    /// Sent, but without the mark at their end.
    Endless,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Clean,
    Abrupt,
    /// In the middle of an event.
    Torn,
}

/// How the server treats every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// Every response and every event is late.
    Slow(Duration),
    /// The body is noise.
    Garbage,
    /// `429 Too Many Requests`, with a Retry-After of one second.
    TooMany,
    /// A watch ends after its first event.
    OneEvent,
    /// A watch ends with `410 Gone` after its first event.
    Expires,
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) version: u64,
    pub(crate) objects: BTreeMap<String, Value>,
    /// Every change: version, what happened, the object.
    pub(crate) history: Vec<(u64, &'static str, Value)>,
    /// Versions before this one are forgotten.
    pub(crate) compacted: u64,
    /// Whether that error comes inside a watch that was opened.
    pub(crate) gone_inside: bool,
    pub(crate) initial: Initial,
    pub(crate) json_only: bool,
    pub(crate) without_ranges: bool,
    /// Accepts connections and never answers.
    pub(crate) silent: bool,
    /// Answers watches and then sends nothing.
    pub(crate) mute: bool,
    pub(crate) down: bool,
    pub(crate) trouble: Trouble,
    /// How many responses were affected.
    pub(crate) troubled: usize,
    /// Encoded events that watches of slices get again and again, ten times a second, and how often they got them.
    pub(crate) flood: Option<Arc<[u8]>>,
    pub(crate) flooded: usize,
    pub(crate) token: Option<String>,
    pub(crate) page: usize,
    /// What lists showed, by kind and version.
    pub(crate) lists: BTreeMap<(String, u64), Vec<Value>>,
    /// How often all connections were cut, and how the last time.
    pub(crate) cuts: (u64, Cut),
    pub(crate) requests: Vec<Seen>,
    /// How many were accepted since the start.
    pub(crate) connections: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) url: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

impl Default for World {
    fn default() -> Self {
        Self {
            version: 100,
            objects: BTreeMap::new(),
            history: Vec::new(),
            compacted: 0,
            gone_inside: false,
            initial: Initial::Sent,
            json_only: false,
            without_ranges: false,
            silent: false,
            mute: false,
            down: false,
            trouble: Trouble::None,
            troubled: 0,
            flood: None,
            flooded: 0,
            token: None,
            page: usize::MAX,
            lists: BTreeMap::new(),
            cuts: (0, Cut::Clean),
            requests: Vec::new(),
            connections: 0,
        }
    }
}

impl World {
    pub(crate) fn put(&mut self, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let old = self.objects.insert(key(&object), object.clone());
        self.history.push((self.version, if old.is_some() { "MODIFIED" } else { "ADDED" }, object));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        let Some(mut object) = self.objects.remove(key) else { return };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.history.push((self.version, "DELETED", object));
    }

    /// Drops the history, so that no watch can continue from an older version.
    pub(crate) fn compact(&mut self) {
        self.version += 1;
        self.compacted = self.version;
        self.history.clear();
    }

    pub(crate) fn cut(&mut self, how: Cut) {
        self.cuts = (self.cuts.0 + 1, how);
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.objects.values().filter(|object| object["kind"] == kind).cloned().collect()
    }

    /// All pages of a list show the same moment. Gives its version, where the page starts, everything, and a page's size.
    pub(crate) fn page_of(&mut self, kind: &str, next: Option<&str>) -> (u64, usize, Vec<Value>, usize) {
        let place = next.and_then(|next| next.split_once('-'));
        let (version, start) =
            place.map_or((self.version, 0), |(version, start)| (version.parse().unwrap(), start.parse().unwrap()));
        let now = self.of_kind(kind);
        let items = self.lists.entry((kind.to_owned(), version)).or_insert(now).clone();
        (version, start, items, self.page)
    }

    pub(crate) fn since(&self, kind: &str, version: u64) -> Vec<(u64, &'static str, Value)> {
        let start = self.history.partition_point(|(number, ..)| *number <= version);
        let newer = self.history[start..].iter();
        newer.filter(|(_, _, object)| object["kind"] == kind).cloned().collect()
    }

    /// How many requests have this in their URL.
    pub(crate) fn requested(&self, part: &str) -> usize {
        self.requests.iter().filter(|request| request.url.contains(part)).count()
    }
}

/// `kind/name`.
pub(crate) fn key(object: &Value) -> String {
    format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
}

pub(crate) fn service(name: &str, address: &str) -> Value {
    json!({
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}},
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "clusterIPs": [address], "sessionAffinity": "None",
            "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
        },
        "status": {"loadBalancer": {}},
    })
}

pub(crate) fn slice(name: &str, service: &str, addresses: &[&str]) -> Value {
    let endpoint = |address: &&str| json!({"addresses": [address], "conditions": {"ready": true}, "nodeName": "here"});
    json!({
        "kind": "EndpointSlice",
        "metadata": {
            "name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": service},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2126-01-01T00:00:00Z"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": addresses.iter().map(endpoint).collect::<Vec<_>>(),
    })
}

pub(crate) fn node(zone: &str) -> Value {
    json!({
        "kind": "Node",
        "metadata": {"name": "here", "labels": {"topology.kubernetes.io/zone": zone}},
        "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd00:1::/64"]},
        "status": {"addresses": [
            {"type": "ExternalIP", "address": "198.51.100.7"}, {"type": "Hostname", "address": "here"},
            {"type": "InternalIP", "address": "192.0.2.7"},
        ]},
    })
}

pub(crate) fn ranges(name: &str, ranges: &[&str]) -> Value {
    json!({"kind": "ServiceCIDR", "metadata": {"name": name}, "spec": {"cidrs": ranges}})
}
