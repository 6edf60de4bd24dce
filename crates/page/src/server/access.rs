//! Who may ask.
//!
//! A page of another site that is open in the same browser can send requests to this one, and a name that its owner lets
//! resolve to 127.0.0.1 makes them look like those of the same site. So the `Host` header must be an address or a name that is
//! known here, and requests that a browser marks as those of another site are refused.

use std::net::{IpAddr, SocketAddr};

use http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Request, StatusCode};

use super::response::{PageResponse, error, redirect};
use crate::question::Query;

const COOKIE_NAME: &str = "portolan-page-token";
const SHORTEST_TOKEN: usize = 16;
const LONGEST_TOKEN: usize = 256;
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Who may ask at an address.
#[derive(Clone, Debug)]
pub struct Access {
    /// Only this machine can connect.
    is_loopback: bool,
    token: Option<String>,
    /// Names of this machine, beside its addresses.
    names: Vec<String>,
}

impl Access {
    /// Beyond loopback, a token is required.
    pub fn new(address: SocketAddr, token: Option<&str>, names: &[&str]) -> Result<Self, String> {
        let is_loopback = address.ip().is_loopback();
        let token = token.map(str::trim);
        match token {
            None if !is_loopback => Err(format!(
                "the page at {address} is open to other machines: listen at 127.0.0.1, or give a token in a file"
            )),
            Some(token) if !is_token(token) => Err(format!(
                "the token of the page needs {SHORTEST_TOKEN} to {LONGEST_TOKEN} letters, digits, '.', '_', '~' or '-'"
            )),
            _ => {
                let names = names.iter().map(|name| name.to_lowercase()).collect();
                Ok(Self { is_loopback, token: token.map(str::to_owned), names })
            }
        }
    }

    /// The answer to a request that is not allowed, or that brings its token for the first time.
    pub(super) fn refusal<B>(&self, request: &Request<B>) -> Option<PageResponse> {
        let headers = request.headers();
        if !self.is_known_host(headers) {
            return Some(error(
                StatusCode::FORBIDDEN,
                "the Host header is neither an address of this machine nor localhost: open the page by its address",
            ));
        }
        if is_of_another_site(headers) {
            return Some(error(StatusCode::FORBIDDEN, "requests of other sites are refused"));
        }
        let token = self.token.as_deref()?;
        if has_token(headers, token) {
            return None;
        }
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or(""));
        let given = Query::parse(query).ok().and_then(|query| query.text("token"));
        if given.is_some_and(|given| is_same(&given, token)) {
            return Some(redirect(&location(path, &Query::without(query, "token")), &cookie(token)));
        }
        let message = "a token is required: open the page with ?token=TOKEN, or send Authorization: Bearer TOKEN";
        Some(error(StatusCode::UNAUTHORIZED, message))
    }

    fn is_known_host(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
        let Some(name) = host.to_str().ok().and_then(host_name) else { return false };
        match name.parse::<IpAddr>() {
            Ok(address) => !self.is_loopback || address.is_loopback(),
            Err(_) => name == "localhost" || !self.is_loopback && self.names.contains(&name),
        }
    }
}

fn is_token(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-');
    (SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&text.len()) && text.bytes().all(is_letter)
}

/// The name or address of `name:port` and `[address]:port`, if the port is none or a number.
fn host_name(host: &str) -> Option<String> {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then(|| name.to_lowercase())
}

/// As the browser says. Other clients send neither header.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?").to_owned());
    let site = text(FETCH_SITE).is_some_and(|site| !matches!(&*site, "same-origin" | "none"));
    let host = text(HOST).unwrap_or_default();
    let origin = text(ORIGIN).is_some_and(|origin| origin.split_once("://").is_none_or(|(_, name)| name != host));
    site || origin
}

fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut cookies = pairs.filter(|(name, _)| *name == COOKIE_NAME);
    bearer.is_some_and(|given| is_same(given.trim(), token)) || cookies.any(|(_, given)| is_same(given, token))
}

/// In a time that does not depend on where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    one.len() == other.len() && differences == 0
}

fn cookie(token: &str) -> String {
    format!("{COOKIE_NAME}={token}; Path=/; HttpOnly; SameSite=Strict")
}

/// Two slashes at the start would name another host.
fn location(path: &str, query: &str) -> String {
    let path = format!("/{}", path.trim_start_matches('/'));
    if query.is_empty() { path } else { format!("{path}?{query}") }
}
