//! Traces of many packets through the same objects. What the packets of a family have in common is made once, when the first one
//! needs it: the rules of a large cluster take longer to arrange than a packet takes to pass through them.

use std::cell::LazyCell;

use portolan_model::Family;
use portolan_plan::{Packet, Trace};

/// Traces packets through the objects that it is made for.
pub type Tracer<'a> = Box<dyn Fn(&Packet) -> Trace + 'a>;

type Made<'a, T> = LazyCell<T, Box<dyn FnOnce() -> T + 'a>>;

/// Something of each family.
pub(crate) struct EachFamily<'a, T> {
    ipv4: Made<'a, T>,
    ipv6: Made<'a, T>,
}

impl<'a, T: 'a> EachFamily<'a, T> {
    pub(crate) fn new(make: impl Fn(Family) -> T + Clone + 'a) -> Self {
        let of = |family, make: Box<dyn Fn(Family) -> T + 'a>| -> Made<'a, T> {
            LazyCell::new(Box::new(move || make(family)))
        };
        Self { ipv4: of(Family::V4, Box::new(make.clone())), ipv6: of(Family::V6, Box::new(make)) }
    }

    /// That of a packet.
    pub(crate) fn of(&self, packet: &Packet) -> &T {
        match Family::of(packet.destination) {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }
}
