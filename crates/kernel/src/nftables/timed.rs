//! Elements that end by themselves, with the time that they have left.

use std::borrow::Borrow;

use portolan_model::Family;

use super::Nftables;
use super::element::Element;
use super::read::members;
use super::uapi::{LIST_ELEMENT, element as attribute};
use crate::error::Result;
use crate::netlink::{Attributes, Interruption, MessageWriter};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimedElement {
    pub element: Element,
    pub timeout_milliseconds: u64,
    pub left_milliseconds: u64,
}

impl Borrow<Element> for &TimedElement {
    fn borrow(&self) -> &Element {
        &self.element
    }
}

impl TimedElement {
    pub(super) fn write(&self, writer: &mut MessageWriter) {
        writer.nest(LIST_ELEMENT, |writer| {
            self.element.write_content(writer);
            writer.number_64(attribute::TIMEOUT, self.timeout_milliseconds);
            writer.number_64(attribute::EXPIRATION, self.left_milliseconds);
        });
    }

    fn read(member: Attributes<'_>) -> Option<Self> {
        let number = |kind| member.first(kind).and_then(|it| it.number_64());
        let (timeout_milliseconds, left_milliseconds) = (number(attribute::TIMEOUT)?, number(attribute::EXPIRATION)?);
        let (element, _) = Element::read(member)?;
        Some(Self { element, timeout_milliseconds, left_milliseconds })
    }
}

impl Nftables {
    /// The elements of a set that end by themselves; none if there is no such set. Some may be missing if packets change the
    /// set in the meantime.
    pub fn timed_elements(&mut self, family: Family, table: &str, set: &str) -> Result<Vec<TimedElement>> {
        let attempted = format!("reading the elements of set {set} of table {} {table}", family.nft_name());
        let dump = self.dump_elements(family, table, set, &attempted, Interruption::Accept)?;
        Ok(members(&dump.unwrap_or_default()).filter_map(TimedElement::read).collect())
    }
}
