//! Which cluster, and what is watched in it.

use std::path::PathBuf;

#[derive(Clone, Debug)]
pub struct ClusterOptions {
    pub node_name: String,
    pub kubeconfig: Option<PathBuf>,
    /// The address of the API server, in place of the kubeconfig's. With neither, the in-cluster configuration is used.
    pub master: Option<String>,
    pub content_type: ContentType,
    /// Requests per second, and in a burst. A rate of 0 means no limit.
    pub qps: f32,
    pub burst: u32,
    pub names: Names,
}

/// What is watched for DNS beside what a proxy needs. Each includes the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    #[default]
    None,
    /// Headless Services and those of other proxies, for which the permissions of kube-proxy are enough.
    OfServices,
    OfNamespaces,
    OfPods,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentType {
    /// JSON is accepted as well.
    #[default]
    Protobuf,
    Json,
}
