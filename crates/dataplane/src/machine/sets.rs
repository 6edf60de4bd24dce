//! Sets and maps of a table, and looking keys up in them.

use std::collections::HashMap;

use portolan_kernel::nftables::{Element, SetSpec};

#[derive(Clone, Debug, Default)]
pub struct Set {
    /// The length in bytes of each field of a key; each field begins at a word.
    fields: Vec<u32>,
    pub(super) key_length: usize,
    /// How long its elements last, in seconds.
    pub(super) timeout: Option<u32>,
    /// Packets add clients to it. It counts as empty: the packet belongs to a client that comes for the first time.
    pub(super) remembers_clients: bool,
    exact: HashMap<Vec<u8>, Element>,
    ranges: Vec<Element>,
    catch_all: Option<Element>,
}

impl Set {
    pub fn new(spec: &SetSpec, timeout_milliseconds: Option<u64>) -> Self {
        Self {
            fields: spec.key_fields.clone(),
            key_length: spec.key_length() as usize,
            timeout: timeout_milliseconds.and_then(|milliseconds| u32::try_from(milliseconds / 1000).ok()),
            ..Self::default()
        }
    }

    /// A set that packets add clients to.
    pub fn of_clients(spec: &SetSpec, timeout_milliseconds: Option<u64>) -> Self {
        Self { remembers_clients: true, ..Self::new(spec, timeout_milliseconds) }
    }

    pub fn add(&mut self, element: Element) {
        match (&element.key_end, element.key.is_empty()) {
            (_, true) => self.catch_all = Some(element),
            (None, _) => drop(self.exact.insert(element.key.clone(), element)),
            (Some(_), _) => self.ranges.push(element),
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<&Element> {
        let in_range = || self.ranges.iter().find(|range| self.holds(range, key));
        self.exact.get(key).or_else(in_range).or(self.catch_all.as_ref())
    }

    /// Every field of the key is within the bounds of that field.
    fn holds(&self, range: &Element, key: &[u8]) -> bool {
        let Some(last) = &range.key_end else { return false };
        let mut start = 0;
        self.fields.iter().all(|length| {
            let field = start..start + *length as usize;
            start += length.next_multiple_of(4) as usize;
            match (range.key.get(field.clone()), key.get(field.clone()), last.get(field)) {
                (Some(first), Some(part), Some(last)) => first <= part && part <= last,
                _ => false,
            }
        })
    }

    /// The elements that are not ranges.
    pub fn exact(&self) -> impl Iterator<Item = &Element> {
        self.exact.values()
    }

    pub(super) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.exact.values().chain(&self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use portolan_kernel::nftables::ElementData;

    use super::*;

    fn element(key: &[u8], end: Option<&[u8]>) -> Element {
        Element { key: key.to_vec(), key_end: end.map(<[u8]>::to_vec), data: ElementData::None, comment: None }
    }

    fn port(number: u16) -> [u8; 4] {
        let [high, low] = number.to_be_bytes();
        [high, low, 0, 0]
    }

    /// As bytes, 10.0.0.5 . 9999 lies between the two ends; as fields it does not.
    #[test]
    fn a_range_over_several_fields_holds_in_each_field() {
        let spec = SetSpec { key_fields: vec![4, 2], interval: true, ..SetSpec::default() };
        let mut set = Set::new(&spec, None);
        let key = |address: u8, number| [[10, 0, 0, address], port(number)].concat();
        set.add(element(&key(1, 80), Some(&key(9, 90))));
        assert!(set.find(&key(5, 85)).is_some());
        assert!(set.find(&key(5, 9999)).is_none());
        assert!(set.find(&key(10, 85)).is_none());
    }

    #[test]
    fn a_catch_all_element_is_found_last() {
        let spec = SetSpec { key_fields: vec![4], ..SetSpec::default() };
        let mut set = Set::new(&spec, None);
        set.add(element(&[1, 2, 3, 4], None));
        assert!(set.find(&[4, 3, 2, 1]).is_none());
        set.add(element(&[], None));
        assert_eq!(set.find(&[1, 2, 3, 4]).map(|it| it.key.len()), Some(4));
        assert_eq!(set.find(&[4, 3, 2, 1]).map(|it| it.key.len()), Some(0));
    }
}
