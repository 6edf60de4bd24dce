//! A kubeconfig file: the fields that matter here.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::error::AccessError;

/// Fields that are not listed are ignored, as kubectl ignores them. None of these types is `Debug`: they hold secrets.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(super) struct Kubeconfig {
    pub(super) clusters: Option<Vec<NamedCluster>>,
    pub(super) users: Option<Vec<NamedUser>>,
    pub(super) contexts: Option<Vec<NamedContext>>,
    #[serde(deserialize_with = "filled")]
    pub(super) current_context: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct NamedCluster {
    pub(super) name: String,
    #[serde(default)]
    pub(super) cluster: Option<Cluster>,
}

#[derive(Deserialize)]
pub(super) struct NamedUser {
    pub(super) name: String,
    #[serde(default)]
    pub(super) user: Option<User>,
}

#[derive(Deserialize)]
pub(super) struct NamedContext {
    pub(super) name: String,
    #[serde(default)]
    pub(super) context: Option<Context>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Context {
    #[serde(deserialize_with = "filled")]
    pub(super) cluster: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) user: Option<String>,
    #[serde(deserialize_with = "filled")]
    pub(super) namespace: Option<String>,
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

/// The documents of a file, whose paths come out relative to the folder of the file.
pub(super) fn read(path: &Path) -> Result<Vec<Kubeconfig>, AccessError> {
    let failed = |reason: String| AccessError::File { place: place(path), reason };
    let text = std::fs::read_to_string(path).map_err(|error| failed(format!("cannot read: {error}")))?;
    let mut documents = parse(text.trim_start_matches('\u{feff}')).map_err(failed)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    documents.iter_mut().for_each(|document| document.make_absolute(folder));
    Ok(documents)
}

/// How errors name a file.
pub(super) fn place(path: &Path) -> String {
    format!("kubeconfig {}", path.display())
}

pub(super) fn parse(text: &str) -> Result<Vec<Kubeconfig>, String> {
    // The error has line and field, and never the value, which may be a secret.
    portolan_yaml::read_all(text).map_err(|error| error.to_string())
}

impl Kubeconfig {
    fn make_absolute(&mut self, folder: &Path) {
        let clusters = self.clusters.iter_mut().flatten().filter_map(|it| it.cluster.as_mut());
        clusters.for_each(|cluster| cluster.make_absolute(folder));
        let users = self.users.iter_mut().flatten().filter_map(|it| it.user.as_mut());
        users.for_each(|user| user.make_absolute(folder));
    }
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
