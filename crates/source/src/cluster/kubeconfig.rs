//! A kubeconfig file: the fields that matter here, and which cluster and user its current context selects.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use portolan_yaml::Node;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::error::AccessError;

/// Fields that are not listed are ignored, as kubectl ignores them. None of these types is `Debug`: they hold secrets.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Kubeconfig {
    clusters: Option<Vec<NamedCluster>>,
    users: Option<Vec<NamedUser>>,
    contexts: Option<Vec<NamedContext>>,
    #[serde(deserialize_with = "filled")]
    current_context: Option<String>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    #[serde(default)]
    cluster: Option<Cluster>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    #[serde(default)]
    user: Option<User>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    #[serde(default)]
    context: Option<Context>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Context {
    #[serde(deserialize_with = "filled")]
    cluster: Option<String>,
    #[serde(deserialize_with = "filled")]
    user: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Cluster {
    #[serde(deserialize_with = "filled")]
    pub(super) server: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) certificate_authority: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) certificate_authority_data: Option<String>,
    pub(super) insecure_skip_tls_verify: Option<bool>,
    #[serde(deserialize_with = "filled")]
    pub(super) tls_server_name: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) proxy_url: Option<String>,
    pub(super) extensions: Option<Vec<Extension>>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Extension {
    name: String,
    #[serde(default)]
    extension: serde_json::Value,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct User {
    #[serde(deserialize_with = "filled")]
    pub(super) client_certificate: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) client_certificate_data: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) client_key: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) client_key_data: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) token: Option<String>,
    #[serde(rename = "tokenFile", deserialize_with = "filled")]
    pub(super) token_file: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) username: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) password: Option<String>,
    #[serde(rename = "as", deserialize_with = "filled")]
    pub(super) as_user: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) as_uid: Option<String>,
    pub(super) as_groups: Option<Vec<String>>,
    pub(super) as_user_extra: Option<BTreeMap<String, Vec<String>>>,
    pub(super) exec: Option<Exec>,
    pub(super) auth_provider: Option<IgnoredAny>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Exec {
    #[serde(deserialize_with = "filled")]
    pub(super) api_version: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) command: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) env: Option<Vec<Variable>>,
    #[serde(deserialize_with = "filled")]
    pub(super) install_hint: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) interactive_mode: Option<String>,
    pub(super) provide_cluster_info: Option<bool>,
}

#[derive(Clone, Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(default)]
    pub(super) value: Option<String>,
}

impl Cluster {
    /// What the file wants a plugin to be given about this cluster.
    pub(super) fn plugin_config(&self) -> Option<&serde_json::Value> {
        let mut extensions = self.extensions.iter().flatten();
        extensions.find(|it| it.name == "client.authentication.k8s.io/exec").map(|it| &it.extension)
    }
}

/// An empty value is no value.
fn filled<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.filter(|text| !text.is_empty()))
}

/// The cluster and the user of the current context, and how errors name them.
#[derive(Clone, Default)]
pub(super) struct Selected {
    pub(super) place: String,
    /// What precedes the name of a field, as in `clusters.production.`.
    pub(super) cluster_prefix: String,
    pub(super) user_prefix: String,
    pub(super) cluster: Cluster,
    pub(super) user: User,
}

/// Reads a file and selects its current context. Paths come out relative to the folder of the file.
pub(super) fn read(path: &Path) -> Result<Selected, AccessError> {
    let place = format!("kubeconfig {}", path.display());
    let failed = |reason: String| AccessError::File { place: place.clone(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| failed(format!("cannot read: {error}")))?;
    let documents = parse(text.trim_start_matches('\u{feff}')).map_err(failed)?;
    let mut selected = select(documents, &place)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    selected.cluster.make_absolute(folder);
    selected.user.make_absolute(folder);
    selected.refuse_unsupported()?;
    Ok(selected)
}

pub(super) fn parse(text: &str) -> Result<Vec<Kubeconfig>, String> {
    let documents = portolan_yaml::read_all(text);
    // The error has line and field, and never the value, which may be a secret.
    documents.and_then(|it| it.iter().map(Node::read).collect()).map_err(|error| error.to_string())
}

/// Several documents count as one, in which the first entry of a name wins.
pub(super) fn select(documents: Vec<Kubeconfig>, place: &str) -> Result<Selected, AccessError> {
    let failed = |field: String, reason: String| AccessError::Field { place: place.to_owned(), field, reason };
    let current = documents.iter().find_map(|it| it.current_context.clone());
    let current = current.ok_or_else(|| failed("current-context".to_owned(), "is not set".to_owned()))?;
    let mut contexts = documents.iter().flat_map(|it| it.contexts.iter().flatten());
    let context = contexts.find(|it| it.name == current).and_then(|it| it.context.clone());
    let context =
        context.ok_or_else(|| failed("current-context".to_owned(), format!("there is no context {current:?}")))?;
    let of_context = || format!("contexts.{current}.cluster");
    let name = context.cluster.ok_or_else(|| failed(of_context(), "is not set".to_owned()))?;
    let mut clusters = documents.iter().flat_map(|it| it.clusters.iter().flatten());
    let cluster = clusters.find(|it| it.name == name).and_then(|it| it.cluster.clone());
    let cluster = cluster.ok_or_else(|| failed(of_context(), format!("there is no cluster {name:?}")))?;
    // A user that is missing is anonymous, as for kubectl.
    let user_name = context.user.unwrap_or_default();
    let mut users = documents.iter().flat_map(|it| it.users.iter().flatten());
    let user = users.find(|it| it.name == user_name).and_then(|it| it.user.clone()).unwrap_or_default();
    Ok(Selected {
        place: place.to_owned(),
        cluster_prefix: format!("clusters.{name}."),
        user_prefix: format!("users.{user_name}."),
        cluster,
        user,
    })
}

impl Cluster {
    fn make_absolute(&mut self, folder: &Path) {
        self.certificate_authority.iter_mut().for_each(|path| join(folder, path));
    }
}

impl User {
    fn make_absolute(&mut self, folder: &Path) {
        let files = [&mut self.client_certificate, &mut self.client_key, &mut self.token_file];
        files.into_iter().flatten().for_each(|path| join(folder, path));
        let command = self.exec.as_mut().and_then(|exec| exec.command.as_mut());
        // A bare name is looked up in PATH.
        command.into_iter().filter(|command| command.contains('/')).for_each(|command| join(folder, command));
    }
}

fn join(folder: &Path, path: &mut String) {
    *path = folder.join(&path).to_string_lossy().into_owned();
}

impl Selected {
    pub(super) fn cluster_field(&self, field: &str, reason: impl Into<String>) -> AccessError {
        let field = format!("{}{field}", self.cluster_prefix);
        AccessError::Field { place: self.place.clone(), field, reason: reason.into() }
    }

    pub(super) fn user_field(&self, field: &str, reason: impl Into<String>) -> AccessError {
        let field = format!("{}{field}", self.user_prefix);
        AccessError::Field { place: self.place.clone(), field, reason: reason.into() }
    }

    fn refuse_unsupported(&self) -> Result<(), AccessError> {
        if self.cluster.proxy_url.is_some() {
            let reason = "is not supported: the API server must be reachable without a proxy";
            return Err(self.cluster_field("proxy-url", reason));
        }
        if self.user.auth_provider.is_some() {
            let reason = "is not supported: Kubernetes 1.26 removed it; use an exec plugin, tokenFile or a certificate";
            return Err(self.user_field("auth-provider", reason));
        }
        Ok(())
    }

    /// Every file that this refers to.
    pub(super) fn files(&self) -> impl Iterator<Item = PathBuf> {
        let User { client_certificate, client_key, token_file, .. } = &self.user;
        let files = [&self.cluster.certificate_authority, client_certificate, client_key, token_file];
        files.into_iter().flatten().map(PathBuf::from)
    }
}
