//! The page: what this node does with Services, over HTTP, read-only.
//!
//! A server knows HTTP and who may ask ([`Page`]); what it serves comes from an [`Ask`]: the daemon itself, the control socket
//! of a running daemon, or manifests. The pictures ([`Known`]) are pure: a plan in, an answer out.
//!
//! | folder or file | idea |
//! |---|---|
//! | `server/` | requests, who may ask, streams of events |
//! | `question`, `answers` | what can be asked; the answers that the daemon fills in |
//! | `picture/` | a Service as a picture, with the lines of objects behind it |
//! | `modes/` | a Service as the objects of every mode, each line with the parts that it belongs to |
//! | `rows`, `candidates` | all Services in short; names that complete a question |
//! | `assets` | the files of the page |
#![forbid(unsafe_code)]

mod answers;
mod assets;
mod candidates;
mod known;
mod modes;
mod picture;
mod question;
mod rows;
mod server;

pub use answers::{
    ConntrackUse, DriftAnswer, HealthAnswer, LatencyAnswer, LiveAnswer, Overview, Rates, RefusalAnswer, SyncsAnswer,
    WatchAnswer,
};
pub use assets::{ASSETS, Asset};
pub use candidates::{Candidate, CandidatesAnswer};
pub use known::{Known, Usage};
pub use modes::{ModeListing, ModesAnswer};
pub use picture::{Behind, ServiceAnswer};
pub use question::{Question, Reply};
pub use rows::{Row, Rows, Size};
pub use server::{Access, Ask, Page};
