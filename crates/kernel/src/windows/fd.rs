//! Descriptors of Linux. None is ever open here, but types that hold one exist on both systems.

use std::fs::File;
use std::marker::PhantomData;

pub type RawFd = i32;

#[derive(Debug)]
pub struct OwnedFd(RawFd);

#[derive(Clone, Copy, Debug)]
pub struct BorrowedFd<'a>(RawFd, PhantomData<&'a OwnedFd>);

pub trait AsFd {
    fn as_fd(&self) -> BorrowedFd<'_>;
}

pub trait AsRawFd {
    fn as_raw_fd(&self) -> RawFd;
}

pub trait FromRawFd {
    /// # Safety
    ///
    /// None is needed here: the number is only stored.
    unsafe fn from_raw_fd(descriptor: RawFd) -> Self;
}

impl FromRawFd for OwnedFd {
    unsafe fn from_raw_fd(descriptor: RawFd) -> Self {
        Self(descriptor)
    }
}

impl AsFd for OwnedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        BorrowedFd(self.0, PhantomData)
    }
}

/// A file of Windows has no descriptor; calls that take one are refused.
impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        BorrowedFd(-1, PhantomData)
    }
}

impl AsRawFd for OwnedFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsRawFd for BorrowedFd<'_> {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}
