//! The watch of a cluster against an API server that misbehaves on demand, over real sockets.

mod access;
mod agreement;
mod authority;
mod fake;
mod fields;
mod follower;
mod names;
mod objects;
mod overload;
mod plugins;
mod protobuf;
mod remote;
mod remote_server;
mod sequences;
mod supervision;
mod watching;
mod world;

/// Long, because a loaded machine must not fail what is only late.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
