//! What a reload has to say.

use std::fmt;
use std::sync::Arc;

/// Something that is wrong with a file or an object. The object's last good version, if there was one, stays in force.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Problem {
    pub file: Arc<str>,
    /// Counted from 1; 0 when the problem is the file as a whole.
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

/// A document of a kind that has nothing to do with Services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    pub file: Arc<str>,
    pub line: u32,
    pub kind: String,
    pub name: String,
}

impl fmt::Display for Ignored {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {} {} is of no concern here", self.file, self.line, self.kind, self.name)
    }
}

#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All problems that are there now, in the order of files and lines.
    pub problems: Vec<Problem>,
    /// Those of them that were not there after the reload before.
    pub new_problems: Vec<Problem>,
    /// The documents passed over in the files that were read this time.
    pub ignored: Vec<Ignored>,
    /// Whether the snapshot is another one than before.
    pub changed: bool,
}
