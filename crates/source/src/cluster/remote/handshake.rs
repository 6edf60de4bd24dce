//! The request that turns a connection into a WebSocket, and the check of the answer.

use bytes::Bytes;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName};
use http_body_util::Full;
use ring::digest;
use ring::rand::{SecureRandom, SystemRandom};

use super::RemoteCommand;
use super::channel::Version;
use crate::cluster::base64;
use crate::cluster::client::Request;
use crate::cluster::resource::escaped;

/// What every server of WebSocket appends to the key, by RFC 6455.
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The request, and the key that the server must answer.
pub(crate) fn request(command: &RemoteCommand) -> Result<(Request, String), String> {
    let key = base64::encode(&random::<16>()?);
    let request = http::Request::get(path(command))
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .header(SEC_WEBSOCKET_PROTOCOL, Version::OFFERED);
    let request = request.body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
    Ok((request, key))
}

pub(super) fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], String> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "this machine has no random numbers".to_owned())?;
    Ok(bytes)
}

fn path(command: &RemoteCommand) -> String {
    let RemoteCommand { namespace, pod, container, command, terminal, has_input } = command;
    let [namespace, pod, container] = [namespace, pod, container].map(|name| escaped(name));
    let mut path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/exec?container={container}&stdout=true");
    // A terminal has one output.
    path += &format!("&stderr={}&tty={terminal}&stdin={has_input}", !terminal);
    path.extend(command.iter().map(|argument| format!("&command={}", escaped(argument))));
    path
}

/// The protocol that the server has chosen, if it has understood the request.
pub(super) fn check(headers: &HeaderMap, key: &str) -> Result<Version, String> {
    let value = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").trim();
    if !value(UPGRADE).eq_ignore_ascii_case("websocket") {
        return Err("the API server, or a proxy before it, has not switched to WebSocket".to_owned());
    }
    if value(SEC_WEBSOCKET_ACCEPT) != accepted(key) {
        return Err(
            "the answer to the WebSocket request is not an answer to this request (a proxy before the API server \
                    may have cached it)"
                .to_owned(),
        );
    }
    let protocol = value(SEC_WEBSOCKET_PROTOCOL);
    Version::of(protocol).ok_or_else(|| {
        format!("the API server has chosen the protocol {protocol:?}; {} were offered", Version::OFFERED)
    })
}

fn accepted(key: &str) -> String {
    let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{SUFFIX}").as_bytes());
    base64::encode(sum.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_6455() {
        assert_eq!(accepted("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn arguments_are_escaped() {
        let command = RemoteCommand {
            namespace: "kube-system".into(),
            pod: "portolan-x".into(),
            container: "portolan".into(),
            command: vec!["portolan".into(), "explain".into(), "a b&c=d".into(), "svc/web:80".into()],
            terminal: true,
            has_input: true,
        };
        let expected = "/api/v1/namespaces/kube-system/pods/portolan-x/exec?container=portolan&stdout=true&stderr=false\
                        &tty=true&stdin=true&command=portolan&command=explain&command=a%20b%26c%3Dd\
                        &command=svc%2Fweb%3A80";
        assert_eq!(path(&command), expected);
    }
}
