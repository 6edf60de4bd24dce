//! Why the API server cannot be reached, and what to do about it.

use std::error::Error as StdError;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error(
        "no API server is configured: neither --kubeconfig nor --master is given, and KUBERNETES_SERVICE_HOST and \
         KUBERNETES_SERVICE_PORT are not set, so this is no pod; set --kubeconfig"
    )]
    NotInCluster,
    #[error(
        "this pod has no service account token at {token}; set automountServiceAccountToken, or set --kubeconfig",
        token = token.display()
    )]
    NoServiceAccount { token: PathBuf },
    /// `place` is a kubeconfig file or a service account, `field` is spelled as `kubectl config set` takes it.
    #[error("{place}: {field}: {reason}")]
    Field { place: String, field: String, reason: String },
    #[error("{place}: {reason}")]
    File { place: String, reason: String },
    #[error("cannot prepare the connection to the API server: {reason}")]
    Interrupted { reason: String },
}

/// An error and its causes, each once.
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

/// Advice for the most frequent failures.
pub(super) fn hint(failure: &str) -> &'static str {
    let text = failure.to_ascii_lowercase();
    match text.as_str() {
        _ if text.contains("expired") && text.contains("certificate") => {
            " (renew the certificate; credential files are read again at every attempt)"
        }
        _ if text.contains("notvalidyet") || text.contains("not valid yet") => {
            " (check the clock of this machine: the certificate is not valid yet)"
        }
        _ if text.contains("unknownissuer") => {
            " (certificate-authority in the kubeconfig, or ca.crt of the service account, is not the one that signed the \
             server's certificate)"
        }
        _ if text.contains("refused") => " (check that the API server runs and that its address is right)",
        _ => "",
    }
}
