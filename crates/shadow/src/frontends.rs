//! The frontends that kube-proxy's rules name.

use portolan_dataplane::walk::Rules;
use portolan_model::{Family, Protocol};
use portolan_plan::FrontendAddress;

/// An address that kube-proxy's rules name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerFrontend {
    pub(crate) family: Family,
    pub(crate) address: FrontendAddress,
    pub(crate) protocol: Protocol,
    /// The Service, as far as the rules show it.
    pub(crate) service: String,
}

/// Rules that also list the addresses that they name.
pub(crate) trait Frontends: Rules {
    fn frontends(&self) -> Vec<PeerFrontend>;
}
