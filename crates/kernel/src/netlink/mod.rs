//! Netlink: the socket, and the message format.

mod attribute;
pub(crate) mod fuzz;
mod message;
mod reply;
mod series;
mod socket;

pub use attribute::{Attribute, Attributes};
pub use message::{Header, MessageWriter};
pub use reply::{Acknowledgement, Message, Messages};
pub use series::Series;
pub use socket::{Interruption, Received, Socket};

/// Flags of a message header (`linux/netlink.h`).
pub mod flags {
    pub const REQUEST: u16 = 0x1;
    pub const ACKNOWLEDGE: u16 = 0x4;
    /// In a reply: the dump was interrupted by a change and is inconsistent.
    pub const DUMP_INTERRUPTED: u16 = 0x10;
    pub const DUMP: u16 = 0x300;
    pub const EXCLUSIVE: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
}

/// Netlink pads headers, attributes and messages to four bytes.
pub(crate) const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}
