//! How an object is converted: with which reading, and what is reported about it.

use std::fmt;
use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::intern::Interner;

/// What is wrong with which field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub(crate) path: String,
    reason: String,
}

impl Flaw {
    pub(crate) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.reason)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Of a manifest, which no API server has validated: a malformed field is an error.
    Strict,
    /// Of an object from the API server, which has validated it: a malformed field that the proxy can do without is
    /// reported and left out, so that a newer API does not stop an older proxy.
    Lenient,
}

/// What a control plane knows beside the manifests.
#[derive(Clone, Copy)]
pub(crate) struct Defaults<'a> {
    pub(crate) service_ranges: &'a [IpNet],
    pub(crate) node_port_range: &'a RangeInclusive<u16>,
    pub(crate) node_name: &'a str,
}

pub(crate) struct Context<'a> {
    reading: Reading,
    pub(crate) names: &'a mut Interner,
    /// Parts that were left out of an object that is otherwise good.
    pub(crate) omitted: Vec<Flaw>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(reading: Reading, names: &'a mut Interner) -> Self {
        Self { reading, names, omitted: Vec::new() }
    }

    pub(super) fn is_strict(&self) -> bool {
        self.reading == Reading::Strict
    }

    /// The strict reading refuses a malformed value; the lenient one reports it and goes on with the fallback.
    pub(super) fn or<T>(&mut self, value: Result<T, Flaw>, fallback: T) -> Result<T, Flaw> {
        match value {
            Err(flaw) if !self.is_strict() => {
                self.omitted.push(flaw);
                Ok(fallback)
            }
            value => value,
        }
    }

    /// Either reading reports a malformed value and leaves it out.
    pub(super) fn or_omit<T>(&mut self, value: Result<T, Flaw>) -> Option<T> {
        value.map_err(|flaw| self.omitted.push(flaw)).ok()
    }
}
