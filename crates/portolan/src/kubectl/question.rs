//! Names of the question, looked up where the user is: the API server knows every pod, a node only those of Services.

use anyhow::bail;
use portolan_explain::{NamedHost, PathQuestion};
use portolan_source::cluster::{ApiServer, PodObject};

use super::invocation::Invocation;
use super::place::{named_node, namespace, no_pod, node_of, pod_named};

/// Words that stand for any client outside of the cluster.
const OUTSIDE: [&str; 2] = ["client-ip", "outside"];

/// Finds the node of a question, and puts what the API server has about its names into it.
pub(super) async fn placed(server: &ApiServer, invocation: &mut Invocation) -> anyhow::Result<Option<String>> {
    let named = named_node(server, invocation).await?;
    match (invocation.name.as_str(), invocation.words.as_slice()) {
        ("explain", [source, destination]) => {
            let (source, destination) = (source.clone(), destination.clone());
            path(server, invocation, PathQuestion { source, destination, ..PathQuestion::default() }, named).await
        }
        ("connections", [service]) => {
            let is_bare = !service.contains(['/', '.']);
            if let (true, Some(namespace)) = (is_bare, &invocation.access.namespace) {
                invocation.words = vec![format!("{namespace}/{service}")];
            }
            Ok(named)
        }
        _ => Ok(named),
    }
}

async fn path(
    server: &ApiServer,
    invocation: &mut Invocation,
    question: PathQuestion,
    named: Option<String>,
) -> anyhow::Result<Option<String>> {
    let destination = match &invocation.access.namespace {
        Some(namespace) => question.destination_in(namespace),
        None => question.destination.clone(),
    };
    let mut words = vec![question.source.clone(), destination];
    let (host, port) = question.source_host();
    let sender = sender(server, invocation, host).await?;
    let node = match (&sender, named) {
        (_, Some(node)) => Some(node),
        (Sender::Pod(pod), None) => Some(node_of(pod)?),
        (Sender::Node(node), None) => Some(node.clone()),
        (Sender::Unknown, None) => None,
    };
    if let Sender::Pod(pod) = &sender {
        words[0] = match port {
            Some(port) => format!("pod/{}/{}:{port}", pod.namespace, pod.name),
            None => format!("pod/{}/{}", pod.namespace, pod.name),
        };
        invocation.flags.extend(flags(pod, node.as_deref())?);
    }
    invocation.words = words;
    Ok(node)
}

/// What the node cannot look up itself.
fn flags(pod: &PodObject, node: Option<&str>) -> anyhow::Result<Vec<String>> {
    if pod.addresses.is_empty() {
        bail!("the pod {}/{} has no address yet: it is {}", pod.namespace, pod.name, pod.phase);
    }
    let mut flags: Vec<String> = pod.addresses.iter().map(|address| format!("--source-addresses={address}")).collect();
    if pod.node.as_deref() == node {
        flags.push("--on-node".to_owned());
    }
    Ok(flags)
}

enum Sender {
    Pod(PodObject),
    Node(String),
    Unknown,
}

async fn sender(server: &ApiServer, invocation: &Invocation, host: NamedHost) -> anyhow::Result<Sender> {
    let own = namespace(server, invocation);
    match host {
        NamedHost::Other => Ok(Sender::Unknown),
        NamedHost::Node(name) => Ok(Sender::Node(name)),
        NamedHost::Pod { namespace, name } => {
            let namespace = namespace.as_deref().unwrap_or(own);
            let pod = pod_named(server, namespace, &name).await?;
            pod.map(Sender::Pod).ok_or_else(|| no_pod(namespace, &name))
        }
        NamedHost::Bare { namespace: None, name } if OUTSIDE.contains(&name.as_str()) => Ok(Sender::Unknown),
        NamedHost::Bare { namespace, name } => {
            match pod_named(server, namespace.as_deref().unwrap_or(own), &name).await? {
                Some(pod) => Ok(Sender::Pod(pod)),
                // Without the right to see nodes, the node that answers resolves the name.
                None => Ok(match server.node(&name).await {
                    Ok(Some(node)) if namespace.is_none() => Sender::Node(node.name),
                    _ => Sender::Unknown,
                }),
            }
        }
        // Pods of the node's own network share its address, and its node.
        NamedHost::Address(address) => match server.pods_at(address).await {
            Ok(pods) => Ok(pods.into_iter().find_map(|pod| pod.node).map_or(Sender::Unknown, Sender::Node)),
            Err(error) => {
                eprintln!("kubectl portolan: the node of {address} is not known: {error} (--node names one)");
                Ok(Sender::Unknown)
            }
        },
    }
}
