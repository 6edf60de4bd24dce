//! What sources need of Linux.

pub(crate) mod keepalive;
pub(crate) mod pipe;
pub(crate) mod plugin;
pub(crate) mod stamp;
pub(crate) mod watch;
