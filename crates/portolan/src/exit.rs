//! Exit statuses.

pub(crate) const SUCCESS: u8 = 0;
/// A difference was found.
pub(crate) const DIFFERENT: u8 = 1;
pub(crate) const FAILURE: u8 = 2;
/// `portolan proxy` fails with kube-proxy's status.
pub(crate) const PROXY_FAILURE: u8 = 1;
