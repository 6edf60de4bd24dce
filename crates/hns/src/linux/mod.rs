//! Linux has no HNS.

use crate::{Error, Hns};

/// The HNS of this machine.
pub fn connect() -> Result<Box<dyn Hns>, Error> {
    let reason = "this program is built for Linux, and HNS is part of Windows";
    Err(Error::new("opening the Host Networking Service", 126, reason))
}
