//! Where the API server is and who we are to it: a kubeconfig file, `--master`, or what every pod is given.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use kube_client::Config;
use kube_client::config::{AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig};
use kube_client::config::{NamedAuthInfo, NamedCluster, NamedContext};

use super::error::AccessError;

/// Where a pod finds its service account.
pub(super) const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

#[derive(Clone, Debug)]
pub(super) struct Credentials {
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) master: Option<String>,
    /// Only used when neither of the others is given.
    pub(super) in_cluster: InCluster,
}

/// What the kubelet tells a pod.
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

impl Credentials {
    /// Reads everything anew. Files that the kubeconfig names must be there; plugins are not run yet.
    pub(super) async fn load(&self) -> Result<Config, AccessError> {
        let kubeconfig = self.kubeconfig()?;
        let options = KubeConfigOptions::default();
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| self.unusable(error))?;
        if let Some(path) = config.auth_info.token_file.take() {
            config.auth_info.token = Some(read_token(Path::new(&path))?.into());
        }
        Ok(config)
    }

    /// Everything in the form of a kubeconfig, whose paths are absolute.
    pub(super) fn kubeconfig(&self) -> Result<Kubeconfig, AccessError> {
        let mut kubeconfig = match (&self.kubeconfig, &self.master) {
            (Some(path), _) => Kubeconfig::read_from(path).map_err(|error| self.unusable(error))?,
            (None, Some(_)) => kubeconfig(Cluster::default(), AuthInfo::default()),
            (None, None) => self.in_cluster()?,
        };
        refuse_proxies(&kubeconfig)?;
        for cluster in kubeconfig.clusters.iter_mut().filter(|_| self.master.is_some()) {
            let cluster = cluster.cluster.get_or_insert_default();
            cluster.server = self.master.as_deref().map(with_scheme);
        }
        Ok(kubeconfig)
    }

    fn in_cluster(&self) -> Result<Kubeconfig, AccessError> {
        let InCluster { host: Some(host), port: Some(port), service_account } = &self.in_cluster else {
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
        Ok(kubeconfig(cluster, AuthInfo { token_file: Some(text(&token)), ..AuthInfo::default() }))
    }

    fn unusable(&self, error: kube_client::config::KubeconfigError) -> AccessError {
        let place = self.kubeconfig.as_ref().map(|path| format!("kubeconfig {}", path.display()));
        let place = place.unwrap_or_else(|| self.in_cluster.service_account.display().to_string());
        AccessError::Unusable { place, source: Box::new(error) }
    }

    /// A number that changes when any of the files does. A file that cannot be read counts as empty.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let mut read = |path: &Path| std::fs::read(path).unwrap_or_default().hash(&mut hasher);
        self.kubeconfig.iter().for_each(|path| read(path));
        let files = self.kubeconfig().map(|kubeconfig| named_files(&kubeconfig)).unwrap_or_default();
        files.iter().for_each(|path| read(Path::new(path)));
        hasher.finish()
    }
}

/// The file is read at every attempt, so nobody else need watch it.
fn read_token(path: &Path) -> Result<String, AccessError> {
    let token = std::fs::read_to_string(path).map_err(|source| AccessError::Token { path: path.into(), source })?;
    match token.trim() {
        "" => Err(AccessError::EmptyToken { path: path.into() }),
        token => Ok(token.to_owned()),
    }
}

/// Every file that a kubeconfig refers to.
fn named_files(kubeconfig: &Kubeconfig) -> Vec<String> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let authorities = clusters.filter_map(|cluster| cluster.certificate_authority.clone());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let of_users = users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]);
    authorities.chain(of_users.flatten().cloned()).collect()
}

/// A kubeconfig of one cluster and one user.
fn kubeconfig(cluster: Cluster, user: AuthInfo) -> Kubeconfig {
    let name = || "portolan".to_owned();
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..Default::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..Default::default() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..Default::default() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}

fn refuse_proxies(kubeconfig: &Kubeconfig) -> Result<(), AccessError> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let proxy = clusters.filter_map(|cluster| cluster.proxy_url.clone()).find(|url| !url.is_empty());
    proxy.map_or(Ok(()), |url| Err(AccessError::Proxy { url }))
}

/// `host:port` means plain HTTP there, as it does to kubectl.
fn with_scheme(master: &str) -> String {
    if master.contains("://") { master.to_owned() } else { format!("http://{master}") }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
