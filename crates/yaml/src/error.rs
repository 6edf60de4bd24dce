//! Why a text cannot be read.

use std::fmt;

use serde::de::{self, Unexpected};

/// The reasons of this crate quote keys but never values, which may be secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Error {
    /// Counted from 1; 0 while it is unknown.
    pub line: u32,
    /// The key of the value that has an unexpected type, if that is the error.
    pub field: String,
    pub reason: String,
}

impl Error {
    pub(crate) fn new(line: u32, reason: impl Into<String>) -> Self {
        Self { line, field: String::new(), reason: reason.into() }
    }

    /// Adds the line, unless a node further inside has added its own.
    pub(crate) fn at(mut self, line: u32) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }

    /// Adds the key of the value, likewise.
    pub(crate) fn of(mut self, key: &str) -> Self {
        if self.field.is_empty() {
            key.clone_into(&mut self.field);
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.field {
            "" => write!(formatter, "line {}: {}", self.line, self.reason),
            field => write!(formatter, "line {}, {field}: {}", self.line, self.reason),
        }
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::new(0, reason.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(0, format!("expected {expected}, found {}", kind(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(0, format!("expected {expected}, found {} out of range", kind(found)))
    }
}

/// The type of a value without the value.
fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "true or false",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Unit | Unexpected::Option => "nothing",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a mapping",
        _ => "a string",
    }
}
