//! Errors of the test environment. Each message names the remedy where there is one.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },

    #[error("{file}:{line}: {reason}")]
    Scenario { file: String, line: usize, reason: String },

    #[error(
        "cannot create a network namespace: {source}; the lab needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN): \
         run the tests as root, or in a container started with --privileged"
    )]
    Privilege { source: io::Error },

    #[error("cannot create a cgroup for threads: {source}; the lab needs cgroup v2, mounted for writing")]
    Cgroup { source: io::Error },

    #[error("cannot run `{tool}` in {host}: it is not installed; install it with `apt-get install {package}`")]
    MissingTool { host: &'static str, tool: String, package: &'static str },

    #[error("`{command}` in {host} failed: {reason}")]
    Command { host: &'static str, command: String, reason: String },

    #[error("cannot write {value} to {path} in {host}: {source}")]
    Sysctl { host: &'static str, path: String, value: &'static str, source: io::Error },

    #[error("the links of {host} did not come up in time: {state}")]
    LinksDown { host: &'static str, state: String },

    #[error("cannot open the pipe that stops the lab's servers: {source}")]
    StopSignal { source: io::Error },

    #[error("cannot flush the connection tracking table of {host}: {source}")]
    Conntrack { host: &'static str, source: io::Error },

    #[error("cannot serve {address}: no host of the lab owns that address")]
    NoOwner { address: SocketAddr },

    #[error("cannot serve {address} in {host}: {source}")]
    Serve { host: &'static str, address: SocketAddr, source: io::Error },

    #[error("{} does not exist; build the programs of Kubernetes with `tests/cluster/build`", path.display())]
    NotBuilt { path: PathBuf },

    #[error("cannot make a temporary folder: {source}")]
    Folder { source: io::Error },

    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },

    #[error("cannot make a key for the API server: {reason}")]
    Key { reason: String },

    #[error("cannot start {program} in {host}: {source}")]
    Start { host: &'static str, program: String, source: io::Error },

    #[error("{program} ended, or was not ready in time; its last output:\n{output}")]
    NotReady { program: String, output: String },

    #[error("cannot use {} as the certificate of the API server: {reason}", path.display())]
    Authority { path: PathBuf, reason: String },

    #[error("the API server refused {what} with {code}: {reason}")]
    Refused { what: String, code: u16, reason: String },

    #[error("the API server did not answer {what}: {reason}")]
    Unanswered { what: String, reason: String },

    #[error("the manifest cannot be read: {reason}")]
    Manifest { reason: String },

    #[error("the browser failed at {what}: {reason}; it needs `apt-get install chromium chromium-driver`")]
    Browser { what: String, reason: String },
}
