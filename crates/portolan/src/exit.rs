//! Exit statuses.

pub(crate) const SUCCESS: u8 = 0;
/// The answer is "no": a difference was found.
pub(crate) const DIFFERENT: u8 = 1;
pub(crate) const FAILURE: u8 = 2;
/// `portolan proxy` fails as kube-proxy does.
pub(crate) const PROXY_FAILURE: u8 = 1;
