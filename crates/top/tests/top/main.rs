//! The screen of `portolan top` as text: pure states, drawn on a terminal in memory.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod board;
mod keys;
mod sample;
mod screens;
