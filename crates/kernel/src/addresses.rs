//! The addresses of the interfaces, and notifications of changes.

pub use crate::interface_address::InterfaceAddress;
pub(crate) use crate::interface_address::{is_change, read_address};
pub use crate::system::addresses::{AddressMonitor, interface_addresses};
