//! Messages between the two processes: a change with its number, and the number back once the names are in force.

use std::io::{self, Read, Write};

use super::facts::Change;

/// Far above any cluster; a longer message is an error and not an allocation.
const MAX_LENGTH: usize = 1 << 30;

pub(super) fn write_change(to: &mut impl Write, number: u64, change: &Change) -> io::Result<()> {
    let text = serde_json::to_vec(change)?;
    let length = (text.len() as u64).to_be_bytes();
    to.write_all(&[&number.to_be_bytes()[..], &length, &text].concat())
}

/// `None` at the end.
pub(super) fn read_change(from: &mut impl Read) -> io::Result<Option<(u64, Change)>> {
    let Some(number) = read_number(from)? else { return Ok(None) };
    let length = read_number(from)?.ok_or(io::ErrorKind::UnexpectedEof)? as usize;
    if length > MAX_LENGTH {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = Vec::new();
    from.take(length as u64).read_to_end(&mut text)?;
    Ok(Some((number, serde_json::from_slice(&text)?)))
}

pub(super) fn write_number(to: &mut impl Write, number: u64) -> io::Result<()> {
    to.write_all(&number.to_be_bytes())
}

/// `None` at the end.
pub(super) fn read_number(from: &mut impl Read) -> io::Result<Option<u64>> {
    let mut number = [0; 8];
    match from.read_exact(&mut number) {
        Ok(()) => Ok(Some(u64::from_be_bytes(number))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
