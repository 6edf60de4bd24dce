//! Messages for the operator: notices, which are logged, and errors, which prevent the start.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Info,
    Warning,
}

/// A message for the log, once logging is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub level: Level,
    pub text: String,
}

impl Notice {
    pub fn info(text: impl Into<String>) -> Self {
        Self { level: Level::Info, text: text.into() }
    }

    pub fn warning(text: impl Into<String>) -> Self {
        Self { level: Level::Warning, text: text.into() }
    }
}

/// All errors of a configuration; each names the place, the problem, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<String>);

impl Errors {
    pub(crate) fn one(text: impl Into<String>) -> Self {
        Self(vec![text.into()])
    }
}

impl fmt::Display for Errors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            [one] => formatter.write_str(one),
            several => {
                write!(formatter, "{} errors in the configuration:", several.len())?;
                several.iter().try_for_each(|error| write!(formatter, "\n  {error}"))
            }
        }
    }
}

impl std::error::Error for Errors {}
