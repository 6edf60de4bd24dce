//! Identities for the API server, and their kubeconfig files.

use std::path::Path;

use serde_json::{Value, json};

/// An identity with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// May do everything.
    Admin,
    /// kube-proxy in a cluster: only the role `system:node-proxier`, which the server binds by itself.
    KubeProxy,
    /// Authenticated, without permissions.
    Unprivileged,
}

impl Identity {
    pub(super) const ALL: [Identity; 3] = [Identity::Admin, Identity::KubeProxy, Identity::Unprivileged];

    pub(super) fn user(self) -> &'static str {
        match self {
            Identity::Admin => "admin",
            Identity::KubeProxy => "system:kube-proxy",
            Identity::Unprivileged => "unprivileged",
        }
    }

    pub(super) fn file(self) -> &'static str {
        match self {
            Identity::Admin => "admin.kubeconfig",
            Identity::KubeProxy => "kube-proxy.kubeconfig",
            Identity::Unprivileged => "unprivileged.kubeconfig",
        }
    }

    pub(super) fn token(self) -> &'static str {
        match self {
            Identity::Admin => "token-of-admin",
            Identity::KubeProxy => "token-of-kube-proxy",
            Identity::Unprivileged => "token-of-unprivileged",
        }
    }

    fn groups(self) -> &'static str {
        if self == Identity::Admin { "system:masters" } else { "" }
    }
}

/// The server's token file.
pub(super) fn tokens() -> String {
    let row = |it: Identity| format!("{},{},{},\"{}\"\n", it.token(), it.user(), it.user(), it.groups());
    Identity::ALL.into_iter().map(row).collect()
}

/// JSON is valid YAML.
pub(super) fn kubeconfig(identity: Identity, server: &str, authority: &Path) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": identity.user(), "user": {"token": identity.token()}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": identity.user()}}],
    })
}
