//! The headers by which the API server knows who asks: a bearer token or a password, and the user to impersonate.

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::base64;
use super::error::AccessError;
use super::exec::Issued;
use super::kubeconfig::User;
use super::selected::Selected;

/// `tokenFile` goes before `token`, and both go before what a plugin has issued.
pub(super) fn headers(selected: &Selected, issued: &Issued) -> Result<HeaderMap, AccessError> {
    let mut headers = HeaderMap::new();
    if let Some(mut value) = authorization(selected, issued)? {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    impersonate(selected, &mut headers)?;
    Ok(headers)
}

/// Whether a plugin has to be run: not when the kubeconfig itself holds what it would issue.
pub(super) fn has_own_authorization(user: &User) -> bool {
    user.token.is_some() || user.token_file.is_some() || user.username.is_some() && user.password.is_some()
}

fn authorization(selected: &Selected, issued: &Issued) -> Result<Option<HeaderValue>, AccessError> {
    let user = &selected.user;
    let header = |field: &str, text: String| {
        let refused = |_| selected.user_field(field, "holds characters that no HTTP header can hold");
        HeaderValue::try_from(text).map(Some).map_err(refused)
    };
    if let (Some(name), Some(password)) = (&user.username, &user.password) {
        return header("username", format!("Basic {}", base64::encode(format!("{name}:{password}").as_bytes())));
    }
    if let Some(path) = &user.token_file {
        return header("tokenFile", format!("Bearer {}", token_in(selected, path)?));
    }
    if let Some(token) = &user.token {
        return header("token", format!("Bearer {}", token.trim()));
    }
    issued.token.as_ref().map_or(Ok(None), |token| header("exec", format!("Bearer {token}")))
}

fn token_in(selected: &Selected, path: &str) -> Result<String, AccessError> {
    let failed = |reason: String| selected.user_field("tokenFile", reason);
    let token = std::fs::read_to_string(path).map_err(|error| failed(format!("cannot read {path}: {error}")))?;
    match token.trim() {
        "" => Err(failed(format!("{path} is empty; it must hold a bearer token"))),
        token => Ok(token.to_owned()),
    }
}

fn impersonate(selected: &Selected, headers: &mut HeaderMap) -> Result<(), AccessError> {
    let User { as_user, as_uid, as_groups, as_user_extra, .. } = &selected.user;
    let mut add = |field: &str, name: &str, value: &str| {
        let refused = || selected.user_field(field, format!("{value:?} cannot be sent as an HTTP header"));
        let name = HeaderName::try_from(name).map_err(|_| refused())?;
        headers.append(name, HeaderValue::try_from(value).map_err(|_| refused())?);
        Ok::<(), AccessError>(())
    };
    as_user.iter().try_for_each(|user| add("as", "impersonate-user", user))?;
    as_uid.iter().try_for_each(|uid| add("as-uid", "impersonate-uid", uid))?;
    as_groups.iter().flatten().try_for_each(|group| add("as-groups", "impersonate-group", group))?;
    for (key, values) in as_user_extra.iter().flatten() {
        let name = format!("impersonate-extra-{}", escaped(key));
        values.iter().try_for_each(|value| add("as-user-extra", &name, value))?;
    }
    Ok(())
}

/// Percent-encodes what the name of a header cannot hold, as client-go does.
fn escaped(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&'*+-.^_`|~".contains(&byte);
    let escape = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    key.bytes().map(escape).collect()
}
