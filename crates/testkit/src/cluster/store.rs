//! Writes objects directly into etcd, in the format of the API server: thousands per second. Through its API, a server
//! with tens of thousands of Services accepts forty per second.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::error::Error;

const ETCD: &str = "127.0.0.1:2379";
/// etcd's limit of operations per transaction is 128.
const PIECE: usize = 100;

/// Call it on the host of etcd.
pub(super) fn store_all(objects: &[Value]) -> Result<(), Error> {
    objects.chunks(PIECE).try_for_each(store)
}

fn store(objects: &[Value]) -> Result<(), Error> {
    let puts: Vec<Value> = objects.iter().map(put).collect();
    let body = json!({"success": puts}).to_string();
    let unanswered = |reason: String| Error::Unanswered { what: "a transaction of etcd".into(), reason };
    let answer = post(&body).map_err(|error| unanswered(error.to_string()))?;
    if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(unanswered(answer)) }
}

fn post(body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(ETCD)?;
    let length = body.len();
    write!(
        stream,
        "POST /v3/kv/txn HTTP/1.1\r\nHost: {ETCD}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map(|_| answer)
}

fn put(object: &Value) -> Value {
    json!({"requestPut": {"key": base64(key(object).as_bytes()), "value": base64(object.to_string().as_bytes())}})
}

/// The API server's key of the object.
fn key(object: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, namespace) = (word(&object["metadata"]["name"]), word(&object["metadata"]["namespace"]));
    match object["kind"].as_str().unwrap_or_default() {
        "Service" => format!("/registry/services/specs/{namespace}/{name}"),
        "EndpointSlice" => format!("/registry/endpointslices/{namespace}/{name}"),
        "IPAddress" => format!("/registry/ipaddresses/{name}"),
        other => panic!("objects of kind {other} are not stored by any test"),
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for piece in bytes.chunks(3) {
        let at = |index: usize| u32::from(piece.get(index).copied().unwrap_or(0));
        let word = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            let is_padding = digit > piece.len();
            let index = (word >> (18 - 6 * digit)) & 63;
            text.push(if is_padding { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_matches_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }
}
