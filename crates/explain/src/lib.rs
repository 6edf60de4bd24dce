//! Read-only reports about a plan and its objects, as text and as JSON.
//!
//! Every answer is a value with a text form and a serialised form, so that a running daemon can send it to a command.
//! Nothing here can write to a kernel.
#![forbid(unsafe_code)]

mod advice;
mod algorithm;
mod changes;
mod conditions;
mod connection;
mod connections;
mod difference;
mod load;
mod names;
mod open_connections;
mod packet;
mod path;
mod printable;
mod services;
mod table;
pub mod top;
mod verify;

pub use changes::{Cause, ChangeEntry, ChangeKind, ChangesAnswer, Drift, Effects};
pub use conditions::EndpointCondition;
pub use connection::{ConnectionAnswer, connection_answer};
pub use connections::{ConnectionChange, ConnectionRow, ConnectionsAnswer, connections_answer};
pub use difference::{BehaviourChange, DifferenceAnswer, difference};
pub use load::{EndpointLoad, LoadAnswer, LoadRow, load_answer};
pub use names::{NamedHost, NamedPacket, NamedService, Names, PathQuestion, Paths};
pub use packet::{CandidateAnswer, PacketAnswer, PacketQuestion, StepAnswer, explain_packet};
pub use path::PathAnswer;
pub use printable::printable;
pub use services::{ServiceRow, ServicesAnswer, services};
pub use table::{Style, table};
pub use verify::{VerifyAnswer, verify_answer};
