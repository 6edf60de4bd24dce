//! The addresses of another Node, for questions about it. Only this Node is watched.

use std::net::IpAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};

use super::Cluster;
use super::options::{ContentType, Names};
use super::request::Requests;
use super::resource::{Decoded, Resource};
use super::wire::Encoding;
use crate::convert::context::{Context, Reading};
use crate::convert::node;
use crate::intern::Interner;

const TIMEOUT: Duration = Duration::from_secs(5);
/// A Node with many images takes some 100 kB.
const LONGEST: usize = 8 << 20;

impl Cluster {
    /// Waits for the API server, and must not be called by a task of the runtime. None for a Node that does not exist, or
    /// without an answer in time.
    pub fn node_addresses(&self, name: &str) -> Vec<IpAddr> {
        let look_up = async { tokio::time::timeout(TIMEOUT, self.look_up(name)).await };
        match self.runtime.block_on(look_up) {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(reason)) => {
                tracing::debug!("cannot look up the Node {name:?}: {reason}");
                Vec::new()
            }
            Err(_) => Vec::new(),
        }
    }

    /// The role of a proxy permits lists of Nodes.
    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, String> {
        let (resource, content_type) = (Resource::Node, ContentType::Json);
        let requests = Requests { resource, url: resource.url(name, Names::None), content_type };
        let response = self.shared.access.send(requests.page(1, "", false)?).await?;
        if !response.status().is_success() {
            return Err(response.status().to_string());
        }
        let body = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|error| error.to_string())?;
        let list = Encoding::Json.read_list(&body.to_bytes())?;
        let read = |item| resource.read_item(Encoding::Json, item).ok();
        Ok(list.items.iter().filter_map(read).find_map(|object| addresses(&object, name)).unwrap_or_default())
    }
}

fn addresses(object: &Decoded, name: &str) -> Option<Vec<IpAddr>> {
    let Decoded::Node(node) = object else { return None };
    let mut names = Interner::default();
    let converted = node::convert(node, &mut Context::new(Reading::Lenient, &mut names));
    converted.ok().filter(|_| node.metadata.name == name).map(|node| node.addresses.into())
}
