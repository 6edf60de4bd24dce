//! What can go wrong in a test's surroundings, in words that tell the reader what to do.

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

    #[error("cannot serve {address}: no host of the lab owns that address")]
    NoOwner { address: SocketAddr },

    #[error("cannot serve {address} in {host}: {source}")]
    Serve { host: &'static str, address: SocketAddr, source: io::Error },
}
