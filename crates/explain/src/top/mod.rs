//! The live numbers of Services, for `portolan top`.
//!
//! An answer has totals, of which the reader makes rates, and only the rows that differ from an earlier answer: a second in a
//! cluster of 10,000 Services is some rows, not 10,000.

mod book;
mod endpoints;
mod rows;

use serde::{Deserialize, Serialize};

pub use book::TopBook;
pub use endpoints::endpoints;

/// Which answer the reader has seen last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// Another daemon, or one that has forgotten its readings, has another number.
    pub book: u64,
    pub reading: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopQuestion {
    /// `None` for all rows.
    pub since: Option<Cursor>,
    /// The row whose endpoints are also of interest.
    pub service: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TopAnswer {
    pub cursor: Cursor,
    pub node: String,
    pub mode: String,
    /// The rows replace all that the reader has.
    pub is_whole: bool,
    /// When the counters were read, in milliseconds of the daemon's own clock. A slow reading is repeated less often, so
    /// that two answers can have the same.
    pub at: u64,
    pub rows: Vec<TopRow>,
    /// Rows that are gone.
    pub removed: Vec<String>,
    /// First packets of refused connections, by reason. The kernel counts them by reason alone.
    pub refusals: Vec<(String, u64)>,
    /// The endpoints of the Service port in question; absent if there is no such row.
    pub endpoints: Option<Vec<TopEndpoint>>,
    /// What is not counted, and why.
    pub notes: Vec<String>,
}

/// One port of one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopRow {
    /// `namespace/name:port`, with `/udp` or `/sctp` where it is not TCP.
    pub service: String,
    pub totals: Totals,
    /// Open connections; absent for protocols without connections.
    pub open: Option<u32>,
    pub ready: u32,
    pub endpoints: u32,
    pub quarantined: u32,
    /// Why some clients of the Service are refused.
    pub refuses: Option<String>,
}

/// Since the daemon counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    pub connections: u64,
    pub bytes_from_clients: u64,
    pub bytes_to_clients: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopEndpoint {
    pub endpoint: String,
    /// `namespace/name` of the Pod.
    pub pod: Option<String>,
    pub node: Option<String>,
    pub zone: Option<String>,
    /// `in the pool`, `quarantined`, `draining`, `terminating`, `not ready` or `gone`.
    pub state: String,
    /// The part of new connections that it gets, in percent.
    pub share: f64,
    pub totals: Totals,
    pub open: Option<u32>,
}
