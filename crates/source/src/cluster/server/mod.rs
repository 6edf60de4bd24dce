//! The API server, for commands that ask once: objects by name, lists, and programs that run in a container.

mod objects;
mod refusal;

use std::path::PathBuf;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};

pub use objects::{NodeObject, PodObject};
pub use refusal::RequestError;

use super::access::Access;
use super::client::{Body, Request};
use super::credentials::Credentials;
use super::error::{AccessError, chain};
use super::pace::Throttle;
use super::remote::{self, Input, Outcome, RemoteCommand, Sink};
use super::resource::escaped;
use super::selected::Choice;
use super::tuning::Tuning;
use super::wire::Encoding;
use crate::spec;

/// Objects in one page of a list, and pages in a list.
const PAGE: usize = 500;
const MOST_PAGES: usize = 200;
/// Bytes of one answer. A page of 500 pods takes some megabytes.
const LONGEST_ANSWER: usize = 64 << 20;
const ACCEPTED: &str = "application/vnd.kubernetes.protobuf, application/json";

/// Where the API server is, and as which user to ask.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// Several files count as one; with none, the service account of this pod is used.
    pub kubeconfig: Vec<PathBuf>,
    /// The address of the API server, in the place of the kubeconfig's.
    pub server: Option<String>,
    pub choice: Choice,
}

pub struct ApiServer {
    access: Access,
    namespace: Option<String>,
}

impl ApiServer {
    /// Reads the kubeconfig. Nothing is sent yet.
    pub fn open(options: ServerOptions) -> Result<Self, AccessError> {
        let tuning = Tuning::default();
        let credentials = Credentials {
            kubeconfig: options.kubeconfig,
            choice: options.choice,
            master: options.server,
            in_cluster: tuning.in_cluster.clone(),
            plugin_timeout: tuning.plugin,
        };
        let namespace = credentials.selected()?.namespace;
        Ok(Self { access: Access::new(credentials, Throttle::new(0.0, 1), &tuning), namespace })
    }

    /// That of the context.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// `None` if there is no such pod.
    pub async fn pod(&self, namespace: &str, name: &str) -> Result<Option<PodObject>, RequestError> {
        let what = format!("getting the pod {namespace}/{name}");
        let path = format!("/api/v1/namespaces/{}/pods/{}", escaped(namespace), escaped(name));
        self.object::<spec::Pod>(&what, &path).await.map(|pod| pod.map(PodObject::from))
    }

    /// `None` if there is no such node.
    pub async fn node(&self, name: &str) -> Result<Option<NodeObject>, RequestError> {
        let what = format!("getting the node {name}");
        let node = self.object::<spec::Identity>(&what, &format!("/api/v1/nodes/{}", escaped(name))).await;
        node.map(|node| node.map(NodeObject::from))
    }

    pub async fn nodes(&self) -> Result<Vec<NodeObject>, RequestError> {
        let nodes = self.list::<spec::Identity>("listing the nodes", "/api/v1/nodes", "").await?;
        Ok(nodes.into_iter().map(NodeObject::from).collect())
    }

    /// The pods of a namespace that carry the labels, on one node or on all.
    pub async fn pods(
        &self,
        namespace: &str,
        labels: &str,
        node: Option<&str>,
    ) -> Result<Vec<PodObject>, RequestError> {
        let what = format!("listing the pods of the namespace {namespace}");
        let path = format!("/api/v1/namespaces/{}/pods", escaped(namespace));
        let node = node.map(|node| format!("&fieldSelector=spec.nodeName%3D{}", escaped(node))).unwrap_or_default();
        let pods = self.list::<spec::Pod>(&what, &path, &format!("&labelSelector={}{node}", escaped(labels))).await?;
        Ok(pods.into_iter().map(PodObject::from).collect())
    }

    /// The pods of all namespaces with this address.
    pub async fn pods_at(&self, address: std::net::IpAddr) -> Result<Vec<PodObject>, RequestError> {
        let what = format!("listing the pods with the address {address}");
        let selector = format!("&fieldSelector=status.podIP%3D{}", escaped(&address.to_string()));
        let pods = self.list::<spec::Pod>(&what, "/api/v1/pods", &selector).await?;
        Ok(pods.into_iter().map(PodObject::from).collect())
    }

    /// Runs a program in a container, with its input from `input` and its output to `sink`, until it ends.
    pub async fn run(
        &self,
        command: &RemoteCommand,
        input: tokio::sync::mpsc::Receiver<Input>,
        sink: &mut dyn Sink,
    ) -> Result<Outcome, RequestError> {
        let what = format!("running a command in the pod {}/{}", command.namespace, command.pod);
        let failed = |reason: String| RequestError::Failed { what: what.clone(), reason };
        let (request, key) = remote::request(command).map_err(failed)?;
        let response = self.access.send(request).await.map_err(failed)?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(self.refused(&what, response).await);
        }
        remote::run(response, &key, command, input, sink).await.map_err(failed)
    }

    async fn object<T: prost::Message + Default + serde::de::DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
    ) -> Result<Option<T>, RequestError> {
        match self.get(what, path).await {
            Err(refused) if refused.is_absent() => Ok(None),
            Err(error) => Err(error),
            Ok((encoding, body)) => {
                let object = encoding.unwrap(&body).and_then(|object| encoding.read(&object));
                object.map(Some).map_err(|reason| RequestError::Failed { what: what.to_owned(), reason })
            }
        }
    }

    async fn list<T: prost::Message + Default + serde::de::DeserializeOwned>(
        &self,
        what: &str,
        path: &str,
        selectors: &str,
    ) -> Result<Vec<T>, RequestError> {
        let failed = |reason: String| RequestError::Failed { what: what.to_owned(), reason };
        let (mut objects, mut next) = (Vec::new(), String::new());
        for _ in 0..MOST_PAGES {
            let page = format!("{path}?limit={PAGE}{selectors}&continue={}", escaped(&next));
            let (encoding, body) = self.get(what, &page).await?;
            let list = encoding.read_list(&body).map_err(failed)?;
            for item in &list.items {
                objects.push(encoding.read(item).map_err(failed)?);
            }
            next = list.metadata.r#continue;
            if next.is_empty() {
                return Ok(objects);
            }
        }
        Err(failed(format!("the list does not end after {MOST_PAGES} pages")))
    }

    async fn get(&self, what: &str, path: &str) -> Result<(Encoding, Bytes), RequestError> {
        let failed = |reason: String| RequestError::Failed { what: what.to_owned(), reason };
        let request: Result<Request, _> = http::Request::get(path).header(ACCEPT, ACCEPTED).body(Full::default());
        let response = self.access.send(request.map_err(|error| failed(error.to_string()))?).await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(what, response).await);
        }
        let encoding = encoding(&response).ok_or_else(|| failed("the answer is neither protobuf nor JSON".into()))?;
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect();
        let limit = self.access.limit();
        let body =
            tokio::time::timeout(limit, body).await.map_err(|_| failed(format!("no answer within {limit:?}")))?;
        Ok((encoding, body.map_err(|error| failed(chain(&*error)))?.to_bytes()))
    }

    async fn refused(&self, what: &str, response: Response<Body>) -> RequestError {
        let (code, encoding) = (response.status(), encoding(&response).unwrap_or(Encoding::Json));
        let limit = self.access.limit();
        let body = tokio::time::timeout(limit, refusal::beginning(response.into_body())).await.unwrap_or_default();
        RequestError::refused(what, code.as_u16(), &encoding.read_status(&body))
    }
}

fn encoding(response: &Response<Body>) -> Option<Encoding> {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    Encoding::of(content_type)
}
