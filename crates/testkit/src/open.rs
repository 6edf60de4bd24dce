//! One line of a `connections` section: `SOURCE -> FRONTEND ENDPOINT FATE COUNT`, TCP connections that stay open from one step
//! to the next.

use std::net::SocketAddr;

use crate::packet::Source;

/// Connections from a source through a frontend to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenLine {
    pub line_number: usize,
    pub source: Source,
    pub frontend: SocketAddr,
    pub endpoint: SocketAddr,
    pub fate: OpenFate,
    pub count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFate {
    /// So many are opened in this step, and the endpoint accepts them.
    Opened,
    /// So many of those that are open get a reset in this step.
    Reset,
    /// So many are still open, and carry data.
    Kept,
}

impl OpenLine {
    /// Parses one line; none if it has only a comment.
    pub(crate) fn parse(line_number: usize, line: &str) -> Result<Option<Self>, String> {
        let content = line.split('#').next().unwrap_or_default().trim();
        if content.is_empty() {
            return Ok(None);
        }
        let words: Vec<&str> = content.split_whitespace().collect();
        let malformed = || format!("`{content}` is not `SOURCE -> FRONTEND ENDPOINT opened|reset|kept COUNT`");
        let [source, "->", frontend, endpoint, fate, count] = words[..] else { return Err(malformed()) };
        let frontend: SocketAddr = frontend.parse().map_err(|_| malformed())?;
        let source = Source::parse(source, frontend.ip())?;
        let endpoint = endpoint.parse().map_err(|_| malformed())?;
        let fate = OpenFate::parse(fate).ok_or_else(malformed)?;
        let count = count.parse().map_err(|_| malformed())?;
        Ok(Some(Self { line_number, source, frontend, endpoint, fate, count }))
    }

    /// Whether both lines are about the same connections.
    pub fn is_about(&self, other: &Self) -> bool {
        (&self.source, self.frontend, self.endpoint) == (&other.source, other.frontend, other.endpoint)
    }
}

impl OpenFate {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "opened" => Some(Self::Opened),
            "reset" => Some(Self::Reset),
            "kept" => Some(Self::Kept),
            _ => None,
        }
    }
}
