//! Windows has no network namespaces of Linux's kind.

use std::fs::File;
use std::io;
use std::path::Path;

use super::fd::BorrowedFd;
use super::only_linux;

pub fn open_network_namespace(_path: &Path) -> io::Result<File> {
    Err(only_linux())
}

pub fn enter_new_network_namespace() -> io::Result<()> {
    Err(only_linux())
}

pub fn enter_network_namespace(_namespace: BorrowedFd<'_>) -> io::Result<()> {
    Err(only_linux())
}
