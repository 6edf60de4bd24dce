//! Which node answers, and in which pod.

use anyhow::{Context, anyhow, bail};
use portolan_source::cluster::{ApiServer, PodObject, RemoteCommand};

use super::access::explained;
use super::flags::NodeFlags;
use super::invocation::Invocation;

const CONTAINER: &str = "portolan";
/// Names in an error.
const MOST_NAMES: usize = 10;

/// The namespace of names in the question: that of the command line, or of the context.
pub(super) fn namespace<'a>(server: &'a ApiServer, invocation: &'a Invocation) -> &'a str {
    invocation.access.namespace.as_deref().or(server.namespace()).unwrap_or("default")
}

/// The node that the command line names.
pub(super) async fn named_node(server: &ApiServer, invocation: &Invocation) -> anyhow::Result<Option<String>> {
    let NodeFlags { node, of_pod, .. } = &invocation.node;
    let Some(pod) = of_pod else { return Ok(node.clone().map(without_kind)) };
    let pod = pod.strip_prefix("pod/").unwrap_or(pod);
    let (namespace, name) = pod.split_once('/').unwrap_or((namespace(server, invocation), pod));
    let pod = pod_named(server, namespace, name).await?;
    let pod = pod.ok_or_else(|| no_pod(namespace, name))?;
    node_of(&pod).map(Some)
}

fn without_kind(node: String) -> String {
    node.strip_prefix("node/").map(str::to_owned).unwrap_or(node)
}

pub(super) async fn pod_named(server: &ApiServer, namespace: &str, name: &str) -> anyhow::Result<Option<PodObject>> {
    let right = || format!("get pods in the namespace {namespace}");
    server.pod(namespace, name).await.map_err(|error| explained(error, &right()))
}

pub(super) fn no_pod(namespace: &str, name: &str) -> anyhow::Error {
    anyhow!(
        "there is no pod {name:?} in the namespace {namespace:?} (-n NAMESPACE chooses another one, or pod/NAMESPACE/{name})"
    )
}

pub(super) fn node_of(pod: &PodObject) -> anyhow::Result<String> {
    let name = || format!("{}/{}", pod.namespace, pod.name);
    pod.node.clone().with_context(|| format!("the pod {} runs on no node yet: it is {}", name(), pod.phase))
}

/// The pod of Portolan on a node, or on any node that has a ready one.
pub(super) async fn portolan(server: &ApiServer, flags: &NodeFlags, node: Option<&str>) -> anyhow::Result<PodObject> {
    let mut pods = all(server, flags, node).await?;
    pods.retain(|pod| pod.node.is_some());
    pods.sort_by(|left, right| {
        (!left.is_ready, &left.node, &left.name).cmp(&(!right.is_ready, &right.node, &right.name))
    });
    match (pods.into_iter().next(), node) {
        (Some(pod), Some(_)) if pod.phase != "Running" => {
            bail!("the pod {}/{} of Portolan does not run: it is {}", pod.namespace, pod.name, pod.phase)
        }
        (Some(pod), None) if !pod.is_ready => {
            bail!("no pod of Portolan is ready (kubectl --namespace {} get pods)", pod.namespace)
        }
        (Some(pod), _) => Ok(pod),
        (None, node) => Err(missing(server, flags, node).await),
    }
}

/// The pods of Portolan.
pub(super) async fn all(server: &ApiServer, flags: &NodeFlags, node: Option<&str>) -> anyhow::Result<Vec<PodObject>> {
    let NodeFlags { portolan_namespace, portolan_selector, .. } = flags;
    let right = || format!("list pods in the namespace {portolan_namespace}");
    let pods = server.pods(portolan_namespace, portolan_selector, node).await;
    pods.map_err(|error| explained(error, &right()))
}

/// Why there is no pod: a node of another name, or Portolan somewhere else.
async fn missing(server: &ApiServer, flags: &NodeFlags, node: Option<&str>) -> anyhow::Error {
    let NodeFlags { portolan_namespace, portolan_selector, .. } = flags;
    let others = all(server, flags, None).await.unwrap_or_default();
    let mut nodes: Vec<&str> = others.iter().filter_map(|pod| pod.node.as_deref()).collect();
    nodes.sort_unstable();
    let list = nodes.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
    match node {
        Some(node) if !nodes.is_empty() => {
            let is_known = matches!(server.node(node).await, Ok(Some(_)));
            let what = if is_known { "has no pod of Portolan" } else { "is no node, or has no pod of Portolan" };
            let more = if nodes.len() > MOST_NAMES { " …" } else { "" };
            anyhow!("{node:?} {what}; it runs on {list}{more}")
        }
        _ => anyhow!(
            "no pod in the namespace {portolan_namespace} has the labels {portolan_selector} (--portolan-namespace and \
             --portolan-selector say where Portolan runs; k8s-app=kube-proxy in the place of kubeadm's kube-proxy)"
        ),
    }
}

/// The command for a pod of Portolan.
pub(super) fn command(pod: &PodObject, flags: &NodeFlags, line: Vec<String>) -> anyhow::Result<RemoteCommand> {
    let usual = || pod.containers.iter().find(|name| *name == CONTAINER).or(pod.containers.first()).cloned();
    let container = flags.portolan_container.clone().or_else(usual);
    let container = container.with_context(|| format!("the pod {}/{} has no container", pod.namespace, pod.name))?;
    let (namespace, pod) = (pod.namespace.clone(), pod.name.clone());
    Ok(RemoteCommand { namespace, pod, container, command: line, terminal: false, has_input: false })
}

/// The right to run commands in a pod.
pub(super) fn right_to_run(command: &RemoteCommand) -> String {
    format!("get and create pods/exec in the namespace {}", command.namespace)
}
