//! Weights of endpoints.

use std::sync::Arc;

/// The share of new connections that an endpoint gets is its weight, compared with the weights of the others. An endpoint with
/// weight 0 gets none, and keeps those that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

impl Weight {
    pub const MOST: u16 = 1000;

    /// `None` above the most.
    pub fn new(number: u16) -> Option<Self> {
        (number <= Self::MOST).then_some(Self(number))
    }

    pub fn number(self) -> u16 {
        self.0
    }
}

/// Endpoints without a weight of their own.
impl Default for Weight {
    fn default() -> Self {
        Self(100)
    }
}

/// Weights of a Service by the place of its endpoints. They multiply those of the endpoints; a place that is not named has the
/// default weight.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceWeights {
    pub nodes: Box<[(Arc<str>, Weight)]>,
    pub zones: Box<[(Arc<str>, Weight)]>,
}
