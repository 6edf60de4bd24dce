//! Why there is no connection to the API server.

use std::error::Error as StdError;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "no API server is configured: set --kubeconfig or --master, or run in a pod, where KUBERNETES_SERVICE_HOST and \
         KUBERNETES_SERVICE_PORT are set"
    )]
    NotInCluster,
    #[error(
        "this pod has no service account token at {token}; set automountServiceAccountToken, or use --kubeconfig",
        token = token.display()
    )]
    NoServiceAccount { token: PathBuf },
    #[error("cannot read the token in {path}: {source}", path = path.display())]
    Token { path: PathBuf, source: std::io::Error },
    #[error("the token file {path} is empty", path = path.display())]
    EmptyToken { path: PathBuf },
    #[error("proxy-url {url:?} in the kubeconfig is not supported: the API server must be reachable without a proxy")]
    Proxy { url: String },
    #[error("cannot use {place}: {chain}", chain = chain(source.as_ref()))]
    Unusable { place: String, source: Box<kube_client::config::KubeconfigError> },
    #[error("cannot prepare the connection to {server}: {chain}{hint}", chain = chain(source.as_ref()), hint = hint(source.as_ref()))]
    Client { server: String, source: Box<kube_client::Error> },
}

/// An error with its causes, without repetition.
pub(super) fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// What to do about the most frequent failures.
pub(super) fn hint(error: &dyn StdError) -> &'static str {
    let text = chain(error).to_ascii_lowercase();
    match text.as_str() {
        _ if text.contains("expired") && text.contains("certificate") => {
            " (renew the certificate; credential files are read again at every attempt)"
        }
        _ if text.contains("notvalidyet") || text.contains("not valid yet") => {
            " (the certificate is not valid yet: check the clock of this machine)"
        }
        _ if text.contains("unknownissuer") => {
            " (certificate-authority in the kubeconfig, or ca.crt of the service account, is not the one that signed the \
             server's certificate)"
        }
        _ if text.contains("refused") => " (check that the API server is running at this address)",
        _ => "",
    }
}
