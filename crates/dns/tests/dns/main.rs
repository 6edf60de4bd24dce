//! Names: the zone and its answers without a server, and the server with its ports and upstreams.

mod cache;
mod names;
mod server;
