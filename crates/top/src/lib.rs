//! `portolan top`: a live table of Services on a terminal.
//!
//! [`Board`] makes rates of readings, [`State`] follows readings and keys, [`draw`] shows a state; all three are pure. [`run`]
//! is the loop around them: one channel of inputs, from the keyboard, from the daemon and from signals.
#![forbid(unsafe_code)]

mod board;
mod changes;
mod columns;
mod draw;
mod keys;
mod numbers;
mod once;
mod run;
mod state;
mod terminal;
mod update;

use portolan_explain::ChangeEntry;
use portolan_explain::top::TopAnswer;

pub use board::{Board, Rates};
pub use columns::{Column, Sort};
pub use draw::draw;
pub use once::{Summary, text};
pub use run::{Ask, Wanted, run};
pub use state::{Input, Next, State, View};
pub use terminal::{Screen, require_terminal};

/// What the daemon answers at one time.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    pub answer: TopAnswer,
    /// Changes since the last reading, oldest first.
    pub changes: Vec<ChangeEntry>,
}
