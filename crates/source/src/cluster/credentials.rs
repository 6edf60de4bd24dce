//! The address of the API server and the credentials for it: kubeconfig, `--master`, or the pod's service account.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Uri};
use jiff::Timestamp;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::error::AccessError;
use super::kubeconfig::{Cluster, User};
use super::selected::{self, Choice, Selected};
use super::{exec, headers, tls};

/// Where a pod finds its service account.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

#[derive(Clone, Debug)]
pub(super) struct Credentials {
    /// Several count as one; none is no kubeconfig.
    pub(super) kubeconfig: Vec<PathBuf>,
    pub(super) choice: Choice,
    pub(super) master: Option<String>,
    /// Only used when neither of the others is given.
    pub(super) in_cluster: InCluster,
    pub(super) plugin_timeout: Duration,
}

/// What the kubelet gives to a pod.
#[derive(Clone, Debug)]
pub struct InCluster {
    pub host: Option<String>,
    pub port: Option<String>,
    pub service_account: PathBuf,
}

impl InCluster {
    pub(super) fn from_environment() -> Self {
        Self {
            host: std::env::var("KUBERNETES_SERVICE_HOST").ok(),
            port: std::env::var("KUBERNETES_SERVICE_PORT").ok(),
            service_account: SERVICE_ACCOUNT.into(),
        }
    }
}

/// Everything that a connection needs. Not `Debug`: it holds secrets.
pub(super) struct Login {
    pub(super) server: Uri,
    /// None for plain HTTP.
    pub(super) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(super) headers: HeaderMap,
    /// A plugin has issued this, which may end without any file changing.
    pub(super) is_from_plugin: bool,
    pub(super) expires: Option<Timestamp>,
}

impl Credentials {
    /// Reads every file again and runs the plugin if there is one, which may take its time.
    pub(super) fn load(&self) -> Result<Login, AccessError> {
        let selected = self.selected()?;
        let server = server(&selected)?;
        let authority = tls::authority(&selected)?;
        let plugin = selected.user.exec.as_ref().filter(|_| !headers::has_own_authorization(&selected.user));
        let issued =
            plugin.map(|exec| exec::run(&selected, exec, authority.as_deref(), self.plugin_timeout)).transpose()?;
        let is_from_plugin = issued.is_some();
        let issued = issued.unwrap_or_default();
        let tls = match server.scheme_str() {
            Some("https") => {
                let config = tls::client_config(&selected, authority.as_deref(), &issued)?;
                Some((Arc::new(config), tls::server_name(&selected, host(&server))?))
            }
            _ => None,
        };
        let headers = headers::headers(&selected, &issued)?;
        Ok(Login { server, tls, headers, is_from_plugin, expires: issued.expires })
    }

    pub(super) fn has_plugin(&self) -> bool {
        self.selected().is_ok_and(|selected| selected.user.exec.is_some())
    }

    /// The cluster and the user, without the files that they name.
    pub(super) fn selected(&self) -> Result<Selected, AccessError> {
        let mut selected = match (self.kubeconfig.as_slice(), &self.master) {
            ([], Some(_)) => Selected { place: "--master".to_owned(), ..Selected::default() },
            ([], None) => self.in_cluster.selected()?,
            (paths, _) => selected::read(paths, &self.choice)?,
        };
        if let Some(master) = &self.master {
            selected.cluster.server = Some(master.clone());
        }
        Ok(selected)
    }

    /// A number that changes when any of the files does. A file that cannot be read counts as empty.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut read = |path: &Path| std::fs::read(path).unwrap_or_default().hash(&mut hasher);
        self.kubeconfig.iter().for_each(|path| read(path));
        self.selected().iter().flat_map(Selected::files).for_each(|path| read(&path));
        hasher.finish()
    }
}

impl InCluster {
    fn selected(&self) -> Result<Selected, AccessError> {
        let Self { host: Some(host), port: Some(port), service_account } = self else {
            return Err(AccessError::NotInCluster);
        };
        let token = service_account.join("token");
        if !token.exists() {
            return Err(AccessError::NoServiceAccount { token });
        }
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let cluster = Cluster {
            server: Some(format!("https://{host}:{port}")),
            certificate_authority: Some(text(&service_account.join("ca.crt"))),
            ..Cluster::default()
        };
        let user = User { token_file: Some(text(&token)), ..User::default() };
        let place = format!("service account {}", service_account.display());
        Ok(Selected { place, cluster, user, ..Selected::default() })
    }
}

fn server(selected: &Selected) -> Result<Uri, AccessError> {
    let failed = |reason: String| selected.cluster_field("server", reason);
    let server = selected.cluster.server.as_ref().ok_or_else(|| failed("is not set".to_owned()))?;
    if server.contains('@') {
        // The text holds a password, perhaps, and is not shown.
        let reason = "holds a user name or a password: remove it, and set username and password of the user instead";
        return Err(failed(reason.to_owned()));
    }
    let uri: Uri = with_scheme(selected, server).parse().map_err(|error| failed(format!("{server:?}: {error}")))?;
    match uri.scheme_str() {
        Some("http" | "https") if !host(&uri).is_empty() => Ok(uri),
        _ => Err(failed(format!("{server:?} is no address such as https://192.0.2.1:6443"))),
    }
}

/// Without the brackets of an IPv6 address.
pub(super) fn host(server: &Uri) -> &str {
    let host = server.host().unwrap_or_default();
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

/// `host:port` means HTTPS if anything about TLS is configured, as in client-go. Other than there, also if there are
/// credentials: they are not sent over plain HTTP unless the address says `http://`.
fn with_scheme(selected: &Selected, server: &str) -> String {
    match server.contains("://") {
        true => server.to_owned(),
        false if is_secure(&selected.cluster, &selected.user) => format!("https://{server}"),
        false => format!("http://{server}"),
    }
}

fn is_secure(cluster: &Cluster, user: &User) -> bool {
    let texts = [
        &cluster.certificate_authority,
        &cluster.certificate_authority_data,
        &user.client_certificate,
        &user.client_certificate_data,
        &user.token,
        &user.token_file,
        &user.password,
    ];
    cluster.insecure_skip_tls_verify == Some(true) || user.exec.is_some() || texts.into_iter().any(Option::is_some)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
