//! Windows lets no program send TCP segments of its own making.

use std::net::SocketAddr;

use portolan_model::Family;

use super::only_linux;
use crate::error::{Error, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    Syn,
    SynAck,
}

/// As on Linux: rules for Linux are rendered here, too.
pub const PRIORITY: u32 = 0x506f_7200;

/// Without a value: none is ever open.
pub enum SegmentSender {}

impl SegmentSender {
    pub fn open(_family: Family) -> Result<Self> {
        Err(Error::io("opening a raw socket", only_linux()))
    }

    pub fn send(&self, _: Segment, _source: SocketAddr, _destination: SocketAddr, _sequence: u32) -> Result<()> {
        match *self {}
    }
}
