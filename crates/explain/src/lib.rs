//! Read-only questions about a plan and its objects, answered in words and as JSON.
//!
//! Every answer is a value: it prints itself for people, and it serialises for programs, so that a running daemon can
//! hand it to the command that asked. Nothing here can write to a kernel.
#![forbid(unsafe_code)]

mod difference;
mod packet;
mod services;
mod table;
mod verify;

pub use difference::{BehaviourChange, DifferenceAnswer, difference};
pub use packet::{CandidateAnswer, PacketAnswer, PacketQuestion, StepAnswer, explain_packet};
pub use services::{ServiceRow, ServicesAnswer, services};
pub use table::Style;
pub use verify::{VerifyAnswer, verify_answer};
