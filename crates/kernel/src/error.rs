//! Errors of kernel calls. They distinguish what has been applied.

use std::{fmt, io};

use crate::system::libc;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{attempted}: {source}")]
    Io { attempted: String, source: io::Error },
    /// The kernel refused a batch or a request; nothing of it was applied.
    #[error("the kernel refused {attempted}: {}", listed(.refusals))]
    Refused { attempted: String, refusals: Vec<Refusal> },
    /// A foreign commit happened since the generation that the batch is based on; nothing was applied.
    #[error("the kernel refused {attempted}: the rules have changed since they were read")]
    Outdated { attempted: String },
    /// The reply was lost: the batch may or may not have been committed. The caller must read the kernel again before
    /// it writes.
    #[error("the outcome of {attempted} is unknown: {source}")]
    OutcomeUnknown { attempted: String, source: io::Error },
    /// The reply of the kernel is malformed.
    #[error("malformed reply to {attempted}: {reason}")]
    Malformed { attempted: String, reason: String },
}

impl Error {
    /// The error number of the system call or of the first refusal.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Io { source, .. } | Error::OutcomeUnknown { source, .. } => source.raw_os_error(),
            Error::Refused { refusals, .. } => refusals.first().map(|refusal| refusal.errno),
            Error::Outdated { .. } => Some(libc::ERESTART),
            Error::Malformed { .. } => None,
        }
    }

    /// The kernel refused because a named object does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Error::Refused { .. }) && self.errno() == Some(libc::ENOENT)
    }

    /// The kernel refused because it lacks something that the message needs: a family, or a kind of chain or expression.
    pub fn is_unsupported(&self) -> bool {
        let lacks = [libc::ENOENT, libc::EOPNOTSUPP, libc::EAFNOSUPPORT, libc::EPROTONOSUPPORT];
        matches!(self, Error::Refused { .. }) && self.errno().is_some_and(|errno| lacks.contains(&errno))
    }

    /// The same, or because it does not know a flag or an attribute.
    pub fn is_unsupported_or_invalid(&self) -> bool {
        self.is_unsupported() || self.is_unknown_message()
    }

    /// The kernel refused because it does not know the kind of message.
    pub fn is_unknown_message(&self) -> bool {
        matches!(self, Error::Refused { .. }) && matches!(self.errno(), Some(libc::EINVAL | libc::EOPNOTSUPP))
    }

    pub(crate) fn io(attempted: impl Into<String>, source: io::Error) -> Self {
        Error::Io { attempted: attempted.into(), source }
    }

    pub(crate) fn malformed(attempted: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Malformed { attempted: attempted.into(), reason: reason.into() }
    }
}

/// One message that the kernel refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// A description of the message, for example "add element in set services of table ip portolan"; empty if it was
    /// the only one.
    pub message: String,
    pub errno: i32,
    /// The text of the extended acknowledgement; empty if the kernel gave none.
    pub reason: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.errno);
        if !self.message.is_empty() {
            write!(formatter, "{}: ", self.message)?;
        }
        write!(formatter, "{error}")?;
        if !self.reason.is_empty() {
            write!(formatter, ": {}", self.reason)?;
        }
        formatter.write_str(advice(self.errno))
    }
}

/// Advice for errors that are not clear by themselves.
fn advice(errno: i32) -> &'static str {
    match errno {
        libc::EPERM => ": run as root, or with the capability CAP_NET_ADMIN",
        libc::EOPNOTSUPP => ": this kernel lacks a required feature (nf_tables with NAT, fib and numgen)",
        _ => "",
    }
}

/// A batch may have thousands of refused messages; a log line needs only the first few.
const LISTED_REFUSALS: usize = 5;

fn listed(refusals: &[Refusal]) -> String {
    let mut list: Vec<String> = refusals.iter().take(LISTED_REFUSALS).map(Refusal::to_string).collect();
    if refusals.len() > LISTED_REFUSALS {
        list.push(format!("and {} more", refusals.len() - LISTED_REFUSALS));
    }
    list.join("; ")
}
