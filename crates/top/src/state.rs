//! What the screen shows: readings so far, and what the reader chose.

use portolan_explain::top::TopRow;
use ratatui::crossterm::event::KeyEvent;

use crate::Reading;
use crate::board::{Board, Live};
use crate::columns::Sort;

/// Lines around the rows: two of summary, a heading, and the keys.
const FRAME: u16 = 4;

#[derive(Clone, Debug, Default)]
pub struct State {
    pub board: Board,
    pub view: View,
    pub sort: Sort,
    pub filter: String,
    /// Keys are letters of the filter.
    pub is_typing: bool,
    /// The row that is marked: the first one, unless another was chosen.
    pub selected: Option<String>,
    /// Lines above the screen, in views without a mark.
    pub scroll: usize,
    /// Why there is no new reading.
    pub problem: Option<String>,
    pub height: u16,
    pub has_colour: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum View {
    #[default]
    Services,
    /// Those of one Service port.
    Endpoints(String),
    Changes,
    Help,
}

#[derive(Clone, Debug)]
pub enum Input {
    Key(KeyEvent),
    Height(u16),
    Reading(Box<Reading>),
    /// The daemon does not answer.
    Failure(String),
    Stop,
}

/// What the loop does after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Draw,
    /// Draws, and asks the daemon at once: the view needs another reading.
    Ask,
    Quit,
}

impl State {
    /// The Service port whose endpoints are shown.
    pub fn service(&self) -> Option<&str> {
        match &self.view {
            View::Endpoints(service) => Some(service),
            _ => None,
        }
    }

    /// The rows that the filter leaves, in order.
    pub fn rows(&self) -> Vec<&Live<TopRow>> {
        let rows = self.board.rows.values();
        let mut rows: Vec<&Live<TopRow>> = rows.filter(|live| self.is_shown(&live.row)).collect();
        self.sort.apply(&mut rows);
        rows
    }

    /// All words of the filter are in the name, or in the reason for a refusal.
    fn is_shown(&self, row: &TopRow) -> bool {
        let reason = row.refuses.as_deref().unwrap_or_default();
        self.filter.split_whitespace().all(|word| row.service.contains(word) || reason.contains(word))
    }

    /// The place of the marked row.
    pub fn index(&self, rows: &[&Live<TopRow>]) -> usize {
        let selected = self.selected.as_deref();
        rows.iter().position(|live| Some(&*live.row.service) == selected).unwrap_or(0)
    }

    /// Rows that fit on the screen.
    pub fn page(&self) -> usize {
        usize::from(self.height.saturating_sub(FRAME)).max(1)
    }

    /// Lines of the current view.
    pub(crate) fn lines(&self) -> usize {
        match self.view {
            View::Services => self.rows().len(),
            View::Endpoints(_) => self.board.endpoints.as_ref().map_or(0, Vec::len),
            View::Changes => self.board.changes.lines.len(),
            View::Help => 0,
        }
    }
}
