//! Where the control plane runs.

/// The host that the control plane runs on.
pub(super) const SERVER_HOST: &str = "node-b";
pub(super) const SERVER_ADDRESS: &str = "192.168.50.2";
pub(super) const SERVER_PORT: u16 = 6443;
pub const SERVER: &str = "https://192.168.50.2:6443";
