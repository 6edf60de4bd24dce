//! Which cluster and which user: the context of one kubeconfig or of several, and what the command line has in its place.

use std::path::PathBuf;

use super::error::AccessError;
use super::kubeconfig::{self, Cluster, Context, Kubeconfig, User};

/// What a command line selects in the place of the files' own choice. The names are those of kubectl's flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub context: Option<String>,
    pub cluster: Option<String>,
    pub user: Option<String>,
    pub as_user: Option<String>,
    pub as_uid: Option<String>,
    pub as_groups: Vec<String>,
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
    pub(super) namespace: Option<String>,
}

/// Several files count as one, as for kubectl: the first one that sets a value wins.
pub(super) fn read(paths: &[PathBuf], choice: &Choice) -> Result<Selected, AccessError> {
    let mut documents = Vec::new();
    for path in paths {
        documents.extend(kubeconfig::read(path)?);
    }
    let places: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let mut selected = select(&documents, choice, &format!("kubeconfig {}", places.join(", ")))?;
    selected.impersonate(choice);
    selected.refuse_unsupported()?;
    Ok(selected)
}

/// Several documents count as one, in which the first entry of a name wins.
pub(super) fn select(documents: &[Kubeconfig], choice: &Choice, place: &str) -> Result<Selected, AccessError> {
    let failed = |field: String, reason: String| AccessError::Field { place: place.to_owned(), field, reason };
    let (current, context) = context(documents, choice, place)?;
    let of_context = || format!("contexts.{current}.cluster");
    let name = choice.cluster.clone().or(context.cluster);
    let name = name.ok_or_else(|| failed(of_context(), "is not set".to_owned()))?;
    let mut clusters = documents.iter().flat_map(|it| it.clusters.iter().flatten());
    let cluster = clusters.find(|it| it.name == name).and_then(|it| it.cluster.clone());
    let cluster = cluster.ok_or_else(|| failed(of_context(), format!("there is no cluster {name:?}")))?;
    // A user that is missing is anonymous, as for kubectl.
    let user_name = choice.user.clone().or(context.user).unwrap_or_default();
    let mut users = documents.iter().flat_map(|it| it.users.iter().flatten());
    let user = users.find(|it| it.name == user_name).and_then(|it| it.user.clone());
    if let (None, Some(name)) = (&user, &choice.user) {
        return Err(failed("users".to_owned(), format!("there is no user {name:?}")));
    }
    Ok(Selected {
        place: place.to_owned(),
        cluster_prefix: format!("clusters.{name}."),
        user_prefix: format!("users.{user_name}."),
        cluster,
        user: user.unwrap_or_default(),
        namespace: context.namespace,
    })
}

/// The name and the content of the chosen context, or of the current one.
fn context(documents: &[Kubeconfig], choice: &Choice, place: &str) -> Result<(String, Context), AccessError> {
    let failed = |reason: String| {
        let field = if choice.context.is_some() { "contexts" } else { "current-context" };
        AccessError::Field { place: place.to_owned(), field: field.to_owned(), reason }
    };
    let current = documents.iter().find_map(|it| it.current_context.clone());
    let current = choice.context.clone().or(current).ok_or_else(|| failed("is not set".to_owned()))?;
    let mut contexts = documents.iter().flat_map(|it| it.contexts.iter().flatten());
    let context = contexts.find(|it| it.name == current).and_then(|it| it.context.clone());
    let context = context.ok_or_else(|| failed(format!("there is no context {current:?}")))?;
    Ok((current, context))
}

impl Selected {
    /// The command line replaces the user to impersonate as a whole.
    fn impersonate(&mut self, choice: &Choice) {
        let Choice { as_user, as_uid, as_groups, .. } = choice;
        if as_user.is_some() {
            self.user.as_user.clone_from(as_user);
            self.user.as_uid.clone_from(as_uid);
            self.user.as_groups = Some(as_groups.clone());
            self.user.as_user_extra = None;
        }
    }

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
