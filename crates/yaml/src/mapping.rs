//! The entries of a mapping: keys that repeat, and merge keys (`<<`).

use std::collections::HashSet;

use crate::error::Error;
use crate::tree::{Cell, Kind, Tree};

/// What happens to a key that a mapping has twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateKeys {
    Refused,
    /// All entries are kept.
    Kept,
}

/// The end of a mapping whose entries begin at a place. Those with merge keys, whose places are given in order, are replaced by
/// what they merge.
pub(crate) fn finish(
    tree: &mut Tree,
    text: &str,
    begin: usize,
    merges: &[usize],
    duplicate_keys: DuplicateKeys,
) -> Result<(), Error> {
    let merges: Vec<usize> = merges.iter().map(|place| place - begin).collect();
    if duplicate_keys == DuplicateKeys::Refused {
        refuse_duplicates(tree, text, &tree.cells[begin..], &merges)?;
    }
    if !merges.is_empty() {
        let entries = tree.cells.split_off(begin);
        let merged = merged(tree, text, &entries, &merges)?;
        tree.cells.extend(merged);
    }
    Ok(())
}

/// The values one after the other, each with its place.
fn values(cells: &[Cell]) -> impl Iterator<Item = (usize, &[Cell])> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let place = next;
        next += cells.get(place)?.size as usize;
        Some((place, cells.get(place..next)?))
    })
}

fn refuse_duplicates(tree: &Tree, text: &str, entries: &[Cell], merges: &[usize]) -> Result<(), Error> {
    let mut known = HashSet::new();
    let own = values(entries).filter(|(place, _)| merges.binary_search(place).is_err());
    for (_, value) in own {
        let key = tree.text(text, value[0].key.text);
        if !known.insert(key) {
            return Err(Error::new(value[0].key.line, format!("duplicate mapping key: {}", shown(key))));
        }
    }
    Ok(())
}

/// A key may contain anything; a message has one line.
fn shown(key: &str) -> String {
    key.chars().take(60).flat_map(char::escape_debug).collect()
}

/// The mapping's own entries win, then those of the first merged mapping that has the key.
fn merged(tree: &Tree, text: &str, entries: &[Cell], merges: &[usize]) -> Result<Vec<Cell>, Error> {
    let key = |value: &[Cell]| tree.text(text, value[0].key.text);
    let (of_merges, own): (Vec<_>, Vec<_>) =
        values(entries).partition(|(place, _)| merges.binary_search(place).is_ok());
    let mut known: HashSet<&str> = own.iter().map(|(_, value)| key(value)).collect();
    let mut cells: Vec<Cell> = own.into_iter().flat_map(|(_, value)| value).copied().collect();
    for (_, value) in of_merges {
        for mapping in mappings(value)? {
            let more = values(&mapping[1..]).filter(|(_, value)| known.insert(key(value)));
            cells.extend(more.flat_map(|(_, value)| value));
        }
    }
    Ok(cells)
}

/// The mappings that the value of a merge key has. Null is an empty one.
fn mappings(value: &[Cell]) -> Result<Vec<&[Cell]>, Error> {
    let is_list = value[0].kind == Kind::List;
    let values = if is_list { values(&value[1..]).map(|(_, item)| item).collect() } else { vec![value] };
    match values.iter().all(|value| matches!(value[0].kind, Kind::Map | Kind::Null)) {
        true => Ok(values),
        false => Err(Error::new(value[0].line, "the value of << must be a mapping or a list of mappings")),
    }
}
