//! Answers about a plan, and questions by name.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod advice;
mod answers;
mod changes;
mod connections;
mod hosts;
mod names;
mod world;
