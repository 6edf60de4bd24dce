//! What the fuzz targets of `portolan-fuzz` call, with any bytes. Not behind a Cargo feature, because a feature would build
//! every crate twice; the linker leaves it out of the program.

use crate::cluster;

/// The body of a watch in protobuf, cut into two chunks. The first byte selects the resource, the second the cut.
pub fn watch_protobuf(bytes: &[u8]) {
    cluster::fuzz::watch(bytes, cluster::ContentType::Protobuf);
}

/// The same in JSON.
pub fn watch_json(bytes: &[u8]) {
    cluster::fuzz::watch(bytes, cluster::ContentType::Json);
}

pub fn kubeconfig(bytes: &[u8]) {
    cluster::fuzz::kubeconfig(&String::from_utf8_lossy(bytes));
}

/// What a server sends after the switch to WebSocket, in two pieces. The first byte is the length of the first.
pub fn remote_command(bytes: &[u8]) {
    cluster::fuzz::remote_command(bytes);
}
