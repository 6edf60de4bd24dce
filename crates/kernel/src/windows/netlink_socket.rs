//! Windows has no netlink: no socket is ever open.

use std::io;
use std::time::Duration;

use super::{libc, only_linux};
use crate::error::{Error, Result};

/// Without a value, so that what is done with an open socket needs no answer.
pub(crate) enum Descriptor {}

impl Descriptor {
    pub(crate) fn open(_protocol: i32) -> Result<Self> {
        Err(Error::io("opening a netlink socket", only_linux()))
    }

    pub(crate) fn bind(&self) -> Result<u32> {
        match *self {}
    }

    pub(crate) fn send(&self, _bytes: &[u8]) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn receive(&self, _buffer: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn poll(&self, _timeout: Option<Duration>) -> io::Result<bool> {
        match *self {}
    }

    pub(crate) fn set_option(&self, _level: i32, _option: i32, _value: i32) -> Result<()> {
        match *self {}
    }

    pub(crate) fn attach_filter(&self, _program: &[libc::sock_filter]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn option(&self, _level: i32, _option: i32) -> Result<usize> {
        match *self {}
    }
}
