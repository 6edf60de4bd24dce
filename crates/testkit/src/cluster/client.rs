//! A small API server client for tests: objects are JSON, and calls are synchronous.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use serde_json::Value;

use super::address::{SERVER_ADDRESS, SERVER_HOST, SERVER_PORT};
use super::kubeconfig::Identity;
use super::path::{folder_of, path_of};
use super::wire::{Answer, Wire, trusting};
use crate::error::Error;
use crate::lab::Lab;

/// Concurrent requests when many objects are written.
const TOGETHER: usize = 16;

/// Connects from the API server's own host, so that it is never cut off.
pub struct Client {
    lab: Arc<Lab>,
    server: Server,
}

struct Server {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    token: &'static str,
}

struct Request {
    method: &'static str,
    path: String,
    body: String,
}

impl Client {
    /// `authority` is the server's self-signed certificate.
    pub(super) fn open(lab: &Arc<Lab>, identity: Identity, authority: &Path) -> Result<Client, Error> {
        let config = trusting(authority).map_err(|reason| Error::Authority { path: authority.to_owned(), reason })?;
        let address = SocketAddr::new(SERVER_ADDRESS.parse().expect("an address"), SERVER_PORT);
        Ok(Client { lab: lab.clone(), server: Server { address, config, token: identity.token() } })
    }

    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.send(request("GET", path, ""))
    }

    /// Creates the object; Services and Nodes get their status, too.
    pub fn create(&self, object: &Value) -> Result<Value, Error> {
        self.send(request("POST", &folder_of(object), &object.to_string()))
    }

    /// Changes the fields that the patch names, and removes those that it sets to null.
    pub fn patch(&self, path: &str, patch: &Value) -> Result<Value, Error> {
        self.send(request("PATCH", path, &patch.to_string()))
    }

    pub fn delete(&self, path: &str) -> Result<Value, Error> {
        self.send(request("DELETE", path, ""))
    }

    /// Replaces the existing object, whatever its version.
    pub fn replace(&self, object: &Value) -> Result<Value, Error> {
        self.send(request("PUT", &path_of(object), &object.to_string()))
    }

    /// Writes the object's status, which is a subresource.
    pub fn set_status(&self, object: &Value) -> Result<Value, Error> {
        let patch = serde_json::json!({"status": object["status"]});
        self.patch(&format!("{}/status", path_of(object)), &patch)
    }

    /// Creates many objects, several at a time.
    pub fn create_all(&self, objects: &[Value]) -> Result<(), Error> {
        self.send_all(objects.iter().map(|it| request("POST", &folder_of(it), &it.to_string())).collect())
    }

    pub fn replace_all(&self, objects: &[Value]) -> Result<(), Error> {
        self.send_all(objects.iter().map(|it| request("PUT", &path_of(it), &it.to_string())).collect())
    }

    pub fn delete_all(&self, paths: &[String]) -> Result<(), Error> {
        self.send_all(paths.iter().map(|path| request("DELETE", path, "")).collect())
    }

    /// Whether the server is ready.
    pub(super) fn is_ready(&self) -> bool {
        let request =
            || self.server.dial().and_then(|mut wire| self.server.exchange(&mut wire, &request("GET", "/readyz", "")));
        self.lab.host(SERVER_HOST).run(request).is_ok_and(|answer| answer.code == 200 && answer.body == b"ok")
    }

    fn send(&self, request: Request) -> Result<Value, Error> {
        self.lab.host(SERVER_HOST).run(|| self.server.call(&mut None, &request))
    }

    fn send_all(&self, requests: Vec<Request>) -> Result<(), Error> {
        self.lab.host(SERVER_HOST).run(|| self.server.call_all(requests))
    }
}

impl Server {
    fn dial(&self) -> std::io::Result<Wire> {
        Wire::open(&self.config, self.address)
    }

    /// Uses the open connection, or opens one.
    fn call(&self, wire: &mut Option<Wire>, request: &Request) -> Result<Value, Error> {
        let what = || format!("{} {}", request.method, request.path);
        let unanswered = |reason: String| Error::Unanswered { what: what(), reason };
        let opened = wire.take().map_or_else(|| self.dial(), Ok).map_err(|error| unanswered(error.to_string()))?;
        let answer = self.exchange(wire.insert(opened), request).map_err(|error| unanswered(error.to_string()))?;
        let value: Value = serde_json::from_slice(&answer.body).map_err(|error| unanswered(error.to_string()))?;
        if (200..300).contains(&answer.code) {
            return Ok(value);
        }
        let reason = value["message"].as_str().unwrap_or_default().to_owned();
        Err(Error::Refused { what: what(), code: answer.code, reason })
    }

    fn exchange(&self, wire: &mut Wire, request: &Request) -> std::io::Result<Answer> {
        let Request { method, path, body } = request;
        let kind = if *method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (address, token) = (self.address, self.token);
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: {kind}\r\n"
        );
        wire.exchange(&head, body)
    }

    /// Threads that are started in a network namespace stay in it. The first failure ends the work.
    fn call_all(&self, requests: Vec<Request>) -> Result<(), Error> {
        let queue = Mutex::new(VecDeque::from(requests));
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let work = || {
            let mut wire = None;
            while let Some(request) = next() {
                self.call(&mut wire, &request)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..TOGETHER).map(|_| scope.spawn(work)).collect();
            let join = |worker: std::thread::ScopedJoinHandle<'_, _>| {
                worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            workers.into_iter().try_for_each(join)
        })
    }
}

fn request(method: &'static str, path: &str, body: &str) -> Request {
    Request { method, path: path.to_owned(), body: body.to_owned() }
}
