//! Type information (BTF), where the kernel cannot do without: the types of a map for socket storage, and the numbers of
//! kernel functions.

use crate::system::fd::OwnedFd;
use std::fs;
use std::io::ErrorKind::Unsupported;

use super::call::{Arguments, Command, failed, impossible};
use crate::error::{Error, Result};

const KERNEL: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
const HEADER: u32 = 24;

/// The numbers of the types of [`storage_types`].
pub(super) const KEY: u32 = 1;
pub(super) const VALUE: u32 = 2;

/// The kinds of types, with the bytes behind their twelve.
const INTEGER: u32 = 1;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const ENUM: u32 = 6;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const VARIABLE: u32 = 14;
const SECTION: u32 = 15;
const DECLARATION_TAG: u32 = 17;
const ENUM_64: u32 = 19;

/// The least that socket storage is accepted with: a key of 32 bits, and a structure without members of the value's size.
pub(super) fn storage_types(value_size: u32) -> Result<OwnedFd> {
    let bytes = storage_bytes(value_size);
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut arguments = Arguments::default().input(0, &bytes).number(16, length);
    arguments.open(Command::BtfLoad).map_err(|error| failed("loading the types of socket storage", error))
}

fn storage_bytes(value_size: u32) -> Vec<u8> {
    let names = b"\0k\0v\0";
    let (key_name, value_name) = (1, 3);
    let key = [key_name, INTEGER << 24, 4, 32];
    let value = [value_name, STRUCT << 24, value_size];
    let types = u32::try_from(size_of_val(&key) + size_of_val(&value)).unwrap_or(u32::MAX);
    let header = [HEADER, 0, types, types, u32::try_from(names.len()).unwrap_or(u32::MAX)];
    // Version 1, no flags.
    let mut bytes = [&MAGIC.to_ne_bytes()[..], &[1, 0]].concat();
    bytes.extend(header.iter().chain(&key).chain(&value).flat_map(|number| number.to_ne_bytes()));
    bytes.extend(names);
    bytes
}

/// The types of the running kernel.
pub struct KernelTypes(Vec<u8>);

impl KernelTypes {
    pub fn read() -> Result<Self> {
        fs::read(KERNEL).map(Self).map_err(|error| Error::io(format!("reading {KERNEL}"), error))
    }

    /// The number of a function.
    pub fn function(&self, name: &str) -> Result<u32> {
        let reason = "this kernel does not have it";
        let missing = || impossible(format!("calling the kernel function {name}"), Unsupported, reason);
        function_number(&self.0, name).ok_or_else(missing)
    }
}

/// The number of the function of this name, in any bytes.
pub(crate) fn function_number(bytes: &[u8], wanted: &str) -> Option<u32> {
    let header = usize_at(bytes, 4)?;
    let section = |at: usize| {
        let start = header.checked_add(usize_at(bytes, at)?)?;
        bytes.get(start..start.checked_add(usize_at(bytes, at + 4)?)?)
    };
    let (mut types, names) = (section(8)?, section(16)?);
    let mut number = 1;
    while !types.is_empty() {
        let information = u32_at(types, 4)?;
        let (kind, count) = (information >> 24 & 0x1f, information & 0xffff);
        if kind == FUNCTION && is_name(names, usize_at(types, 0)?, wanted) {
            return Some(number);
        }
        types = types.get(12 + trailer(kind, count as usize)..)?;
        number += 1;
    }
    None
}

fn is_name(names: &[u8], at: usize, wanted: &str) -> bool {
    let rest = names.get(at..).and_then(|rest| rest.strip_prefix(wanted.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&0))
}

fn trailer(kind: u32, count: usize) -> usize {
    match kind {
        INTEGER | VARIABLE | DECLARATION_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | SECTION | ENUM_64 => 12 * count,
        ENUM | PROTOTYPE => 8 * count,
        _ => 0,
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn usize_at(bytes: &[u8], at: usize) -> Option<usize> {
    u32_at(bytes, at)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_behind_other_types() {
        let names = b"\0other\0wanted\0";
        let types = [
            [1, INTEGER << 24, 4, 32].as_slice(),
            &[0, STRUCT << 24 | 2, 8, 1, 1, 0, 7, 1, 32],
            &[1, FUNCTION << 24, 1],
            &[7, FUNCTION << 24, 1],
        ]
        .concat();
        let length = types.len() as u32 * 4;
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        bytes.extend([HEADER, 0, length, length, names.len() as u32].iter().flat_map(|it| it.to_ne_bytes()));
        bytes.extend(types.iter().flat_map(|it| it.to_ne_bytes()));
        bytes.extend(names);
        assert_eq!(function_number(&bytes, "wanted"), Some(4));
        assert_eq!(function_number(&bytes, "other"), Some(3));
        assert_eq!(function_number(&bytes, "want"), None);
        for length in 0..bytes.len() {
            function_number(&bytes[..length], "wanted");
        }
    }

    #[test]
    fn the_types_of_storage_are_two() {
        let bytes = storage_bytes(56);
        assert_eq!(bytes.len(), 24 + 28 + 5);
        assert_eq!(usize_at(&bytes, 24 + 16 + 8), Some(56));
    }
}
