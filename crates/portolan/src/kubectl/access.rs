//! The API server that kubectl would ask, and what its refusals mean.

use std::path::PathBuf;

use anyhow::{Context, anyhow};
use portolan_source::cluster::{ApiServer, Choice, RequestError, ServerOptions};

use super::flags::AccessFlags;

pub(super) fn open(flags: &AccessFlags) -> anyhow::Result<ApiServer> {
    let choice = Choice {
        context: flags.context.clone(),
        cluster: flags.cluster.clone(),
        user: flags.user.clone(),
        as_user: flags.as_user.clone(),
        as_uid: flags.as_uid.clone(),
        as_groups: flags.as_group.clone(),
    };
    let options = ServerOptions { kubeconfig: kubeconfig(flags), server: flags.server.clone(), choice };
    ApiServer::open(options).context("finding the cluster")
}

/// Files of a list that do not exist do not count, as for kubectl. A file that is named alone must exist.
fn kubeconfig(flags: &AccessFlags) -> Vec<PathBuf> {
    if let Some(path) = &flags.kubeconfig {
        return vec![path.clone()];
    }
    let listed: Vec<PathBuf> = match std::env::var_os("KUBECONFIG").filter(|list| !list.is_empty()) {
        Some(list) => std::env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => std::env::home_dir().map(|home| home.join(".kube/config")).into_iter().collect(),
    };
    match listed.as_slice() {
        [only] if std::env::var_os("KUBECONFIG").is_some() => vec![only.clone()],
        _ => listed.into_iter().filter(|path| path.exists()).collect(),
    }
}

/// An error with the right that is missing.
pub(super) fn explained(error: RequestError, right: &str) -> anyhow::Error {
    let advice = match &error {
        error if error.is_forbidden() => {
            format!(" (this takes the right to {right}; docs/kubectl.md has the roles)")
        }
        error if error.is_unauthorized() => " (the credentials of the kubeconfig are invalid or expired)".to_owned(),
        _ => String::new(),
    };
    anyhow!("{error}{advice}")
}
