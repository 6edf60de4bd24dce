//! What can be asked, and how it is written in a request.

use portolan_explain::PathQuestion;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Question {
    Overview,
    Services,
    Service {
        name: String,
    },
    Modes {
        name: String,
        full: bool,
    },
    Explain {
        source: String,
        destination: String,
        interface: Option<String>,
        on_node: bool,
    },
    Candidates {
        text: String,
        for_destination: bool,
        limit: usize,
    },
    Changes {
        after: u64,
        limit: usize,
    },
    Verify,
    Connections {
        service: Option<String>,
        limit: usize,
    },
    /// What a stream of events sends: everything that is new after a change, and the rates.
    Live {
        after: Option<u64>,
        /// The last reading of counters that is known.
        reading: u64,
        services: Vec<String>,
    },
}

/// An answer as it goes to the client: an HTTP status, and JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    pub status: u16,
    pub body: String,
}

impl Reply {
    pub fn of<T: Serialize>(answer: &T) -> Self {
        match serde_json::to_string(answer) {
            Ok(body) => Self { status: 200, body },
            Err(error) => Self::error(500, &format!("writing the answer: {error}")),
        }
    }

    pub fn error(status: u16, message: &str) -> Self {
        Self { status, body: serde_json::json!({ "error": message }).to_string() }
    }
}

const MOST_CANDIDATES: usize = 50;
const MOST_CHANGES: usize = 1_000;
const MOST_CONNECTIONS: usize = 1_000;

impl Question {
    /// `None` if there is no such path; an error names the parameter.
    pub(crate) fn parse(path: &str, query: &str) -> Result<Option<Self>, String> {
        let query = Query::parse(query)?;
        Ok(Some(match path {
            "/api/overview" => Self::Overview,
            "/api/services" => Self::Services,
            "/api/service" => Self::Service { name: query.required("name")? },
            "/api/service/modes" => Self::Modes { name: query.required("name")?, full: query.is_set("full") },
            "/api/explain" => Self::Explain {
                source: query.required("source")?,
                destination: query.required("destination")?,
                interface: query.text("interface"),
                on_node: query.is_set("on_node"),
            },
            "/api/candidates" => Self::Candidates {
                text: query.text("text").unwrap_or_default(),
                for_destination: query.text("for").is_some_and(|side| side == "destination"),
                limit: query.number("limit", 20)?.min(MOST_CANDIDATES as u64) as usize,
            },
            "/api/changes" => Self::Changes {
                after: query.number("after", 0)?,
                limit: query.number("limit", MOST_CHANGES as u64)?.min(MOST_CHANGES as u64) as usize,
            },
            "/api/verify" => Self::Verify,
            "/api/connections" => Self::Connections {
                service: query.text("service"),
                limit: query.number("limit", 200)?.min(MOST_CONNECTIONS as u64) as usize,
            },
            _ => return Ok(None),
        }))
    }

    /// Whether it reads all of the kernel, so that one at a time is enough.
    pub(crate) fn is_expensive(&self) -> bool {
        matches!(self, Self::Verify | Self::Explain { .. } | Self::Connections { .. } | Self::Modes { .. })
    }

    /// The question of `portolan explain`.
    pub fn path(&self) -> Option<PathQuestion> {
        let Self::Explain { source, destination, interface, on_node } = self else { return None };
        let (source, destination, interface) = (source.clone(), destination.clone(), interface.clone());
        Some(PathQuestion { source, destination, interface, on_node: *on_node, addresses: Vec::new() })
    }
}

/// Longer than any name with its namespace, and port.
const LONGEST_VALUE: usize = 700;
const MOST_PARAMETERS: usize = 16;

/// The parameters of a request.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split('&').filter(|part| !part.is_empty()).collect();
        if parts.len() > MOST_PARAMETERS {
            return Err(format!("more than {MOST_PARAMETERS} parameters"));
        }
        let pair = |part: &&str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Ok((decoded(name)?, decoded(value)?))
        };
        parts.iter().map(pair).collect::<Result<_, String>>().map(Self)
    }

    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.0.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone()).filter(|value| !value.is_empty())
    }

    fn required(&self, name: &str) -> Result<String, String> {
        self.text(name).ok_or_else(|| format!("the parameter {name} is missing"))
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        let Some(text) = self.text(name) else { return Ok(default) };
        text.parse().map_err(|_| format!("the parameter {name} is not a number"))
    }

    fn is_set(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value != "0" && value != "false")
    }

    /// The query without one parameter, in its own encoding.
    pub(crate) fn without(text: &str, name: &str) -> String {
        let is_other = |part: &&str| part.split('=').next() != Some(name);
        text.split('&').filter(|part| !part.is_empty()).filter(is_other).collect::<Vec<_>>().join("&")
    }
}

/// Percent-encoding, and `+` for a space.
fn decoded(text: &str) -> Result<String, String> {
    let bytes = text.as_bytes();
    let (mut decoded, mut index) = (Vec::with_capacity(bytes.len()), 0);
    while index < bytes.len() {
        match bytes[index] {
            b'%' => {
                let digits =
                    text.get(index + 1..index + 3).filter(|digits| digits.bytes().all(|it| it.is_ascii_hexdigit()));
                let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
                decoded.push(byte.ok_or("a percent sign is not followed by two hexadecimal digits")?);
                index += 2;
            }
            b'+' => decoded.push(b' '),
            other => decoded.push(other),
        }
        index += 1;
    }
    if decoded.len() > LONGEST_VALUE {
        return Err(format!("a parameter is longer than {LONGEST_VALUE} bytes"));
    }
    String::from_utf8(decoded).map_err(|_| "a parameter is not UTF-8".to_owned())
}
