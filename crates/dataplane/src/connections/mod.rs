//! Open TCP connections of Services: how many each endpoint has, and ending some of them with a reset of both sides.
//!
//! | file | idea |
//! |---|---|
//! | `open` | open connections one by one |
//! | `load` | open connections by Service port and endpoint |
//! | `removed` | endpoints that are gone, and when their connections are reset |
//! | `rebalance` | which idle connections end because endpoints were added |
//! | `reset`, `table` | one connection reset; the rules that answer its packets with resets |
//! | `worker` | the thread that does it, at a bounded rate |

mod load;
mod open;
mod rebalance;
mod removed;
mod reset;
mod table;
mod worker;

pub use load::{Load, PortLoad};
pub use open::{LeadsTo, OpenConnection, OpenConnections, Phase, Wanted};
pub use rebalance::{Candidate, IdleClock, Rebalancer};
pub use removed::Removed;
pub use reset::{Persistence, Resetter};
pub use table::{TABLE, places};
pub use worker::{ConnectionWorker, NoteResets, Why};
