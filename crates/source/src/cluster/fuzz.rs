//! A watch and a kubeconfig without a server, for the fuzz targets.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::access::Access;
use super::credentials::{Credentials, InCluster};
use super::facts::Facts;
use super::kubeconfig;
use super::options::{ContentType, Names};
use super::pace::Throttle;
use super::request::Requests;
use super::resource::Resource;
use super::selected::{self, Choice};
use super::shared::Shared;
use super::tuning::Tuning;
use super::watcher::Watcher;
use super::wire::Encoding;

/// The body is first read as a list, then as a watch with initial events.
pub(crate) fn watch(bytes: &[u8], content_type: ContentType) {
    let Some((&[selector, cut], body)) = bytes.split_first_chunk::<2>() else { return };
    let resource = Resource::ALL[usize::from(selector) % Resource::ALL.len()];
    let encoding = match content_type {
        ContentType::Protobuf => Encoding::Protobuf,
        ContentType::Json => Encoding::Json,
    };
    list(resource, encoding, body);
    let (first, second) = body.split_at(usize::from(cut).min(body.len()));
    let shared = shared();
    let requests = Requests { resource, url: resource.url("node-a", Names::OfPods), content_type };
    Watcher::new(requests, shared.clone()).feed(encoding, [first, second]);
    shared.facts().snapshot();
    shared.facts().take_changes();
}

fn list(resource: Resource, encoding: Encoding, body: &[u8]) {
    let body = Bytes::copy_from_slice(body);
    encoding.read_status(&body);
    let Ok(list) = encoding.read_list(&body) else { return };
    list.items.iter().for_each(|item| _ = resource.read_item(encoding, item));
}

pub(super) fn shared() -> Arc<Shared> {
    let in_cluster = InCluster { host: None, port: None, service_account: "/nonexistent".into() };
    let tuning = Tuning { in_cluster: in_cluster.clone(), ..Tuning::default() };
    let credentials = Credentials {
        kubeconfig: Vec::new(),
        choice: Choice::default(),
        master: None,
        in_cluster,
        plugin_timeout: Duration::from_secs(1),
    };
    let access = Access::new(credentials, Throttle::new(5.0, 10), &tuning);
    let facts = Facts::new("node-a", Names::OfPods, SystemTime::UNIX_EPOCH);
    Arc::new(Shared::new(tuning, access, facts, Box::new(|| ())))
}

pub(crate) fn kubeconfig(text: &str) {
    _ = kubeconfig::parse(text).map(|documents| selected::select(&documents, &Choice::default(), "kubeconfig"));
}

pub(crate) fn remote_command(bytes: &[u8]) {
    super::remote::decode(bytes);
}
