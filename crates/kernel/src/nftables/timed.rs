//! Elements that end by themselves, with the time that they have left.

use std::borrow::Borrow;

use super::element::Element;
use super::uapi::{LIST_ELEMENT, element as attribute};
use crate::netlink::{Attributes, MessageWriter};

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

    pub(super) fn read(member: Attributes<'_>) -> Option<Self> {
        let number = |kind| member.first(kind).and_then(|it| it.number_64());
        let (timeout_milliseconds, left_milliseconds) = (number(attribute::TIMEOUT)?, number(attribute::EXPIRATION)?);
        let (element, _) = Element::read(member)?;
        Some(Self { element, timeout_milliseconds, left_milliseconds })
    }
}
