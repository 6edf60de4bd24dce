//! The outcome of a reload.

use std::fmt;
use std::sync::Arc;

/// An error in a file or an object. The last good version of the object, if there is one, stays in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Problem {
    pub file: Arc<str>,
    /// Counted from 1; 0 for the file as a whole.
    pub line: u32,
    /// For example `Service default/web`.
    pub object: Option<String>,
    pub reason: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:", self.file)?;
        if self.line > 0 {
            write!(formatter, "{}:", self.line)?;
        }
        if let Some(object) = &self.object {
            write!(formatter, " {object}:")?;
        }
        write!(formatter, " {}", self.reason)
    }
}

/// A document of a kind that Portolan does not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub file: Arc<str>,
    pub line: u32,
    pub kind: String,
    pub name: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}:{}: {} {} is ignored: Portolan does not use this kind",
            self.file, self.line, self.kind, self.name
        )
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All current problems, in the order of files and lines.
    pub problems: Vec<Problem>,
    /// Those that the previous reload did not report.
    pub new_problems: Vec<Problem>,
    /// The documents that were ignored in the files that were read.
    pub ignored: Vec<Ignored>,
    /// Whether the snapshot changed.
    pub changed: bool,
}
