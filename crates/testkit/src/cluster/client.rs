//! A small client of the API server, for tests: objects are JSON, and calls return when the server has answered.

use std::path::Path;
use std::sync::Arc;

use http::Request;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client as Connection, Config, Error as ConnectionError};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::SERVER_HOST;
use super::path::{folder_of, path_of};
use crate::error::Error;
use crate::lab::Lab;

/// So many requests are under way together when many objects are written.
const TOGETHER: usize = 16;

/// Speaks to the API server from the server's own host, so that it is never cut off.
pub struct Client {
    lab: Arc<Lab>,
    runtime: Runtime,
    connection: Connection,
}

impl Client {
    pub(super) fn open(lab: &Arc<Lab>, kubeconfig: &Path) -> Result<Client, Error> {
        let unusable = |reason: String| Error::Kubeconfig { path: kubeconfig.to_owned(), reason };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| unusable(error.to_string()))?;
        let connection = runtime.block_on(connect(kubeconfig)).map_err(|error| unusable(error.to_string()))?;
        Ok(Client { lab: lab.clone(), runtime, connection })
    }

    pub fn get(&self, path: &str) -> Result<Value, Error> {
        self.send(request("GET", path, ""))
    }

    /// Creates the object in its own place; Services and Nodes get their status, too.
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

    /// Takes the place of the object that is there, whatever its version.
    pub fn replace(&self, object: &Value) -> Result<Value, Error> {
        self.send(request("PUT", &path_of(object), &object.to_string()))
    }

    /// Writes the object's status, which the server keeps apart from the rest.
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

    /// Whether the server says that it is ready for work.
    pub(super) fn is_ready(&self) -> bool {
        let asked = || self.runtime.block_on(self.connection.request_text(request("GET", "/readyz", "")));
        self.lab.host(SERVER_HOST).run(asked).is_ok_and(|answer| answer == "ok")
    }

    fn send(&self, request: Request<Vec<u8>>) -> Result<Value, Error> {
        let answer = || self.runtime.block_on(call(self.connection.clone(), request));
        self.lab.host(SERVER_HOST).run(answer)
    }

    /// A connection belongs to the namespace of the thread that opens it, so all the work is done on one inside.
    fn send_all(&self, requests: Vec<Request<Vec<u8>>>) -> Result<(), Error> {
        self.lab.host(SERVER_HOST).run(|| self.runtime.block_on(call_all(&self.connection, requests)))
    }
}

async fn connect(kubeconfig: &Path) -> Result<Connection, Box<dyn std::error::Error>> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    Ok(Connection::try_from(config)?)
}

async fn call_all(connection: &Connection, requests: Vec<Request<Vec<u8>>>) -> Result<(), Error> {
    let mut under_way = JoinSet::new();
    for request in requests {
        if under_way.len() >= TOGETHER {
            finish(under_way.join_next().await)?;
        }
        under_way.spawn(call(connection.clone(), request));
    }
    while !under_way.is_empty() {
        finish(under_way.join_next().await)?;
    }
    Ok(())
}

fn finish(done: Option<Result<Result<Value, Error>, tokio::task::JoinError>>) -> Result<(), Error> {
    match done {
        Some(Ok(answer)) => answer.map(drop),
        Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
        None => Ok(()),
    }
}

async fn call(connection: Connection, request: Request<Vec<u8>>) -> Result<Value, Error> {
    let what = format!("{} {}", request.method(), request.uri());
    connection.request(request).await.map_err(|error| match error {
        ConnectionError::Api(status) => Error::Refused { what, code: status.code, reason: status.message },
        error => Error::Unanswered { what, reason: error.to_string() },
    })
}

fn request(method: &str, path: &str, body: &str) -> Request<Vec<u8>> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
    request.body(body.as_bytes().to_vec()).expect("the tests' own paths are right")
}
