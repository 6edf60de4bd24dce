//! A state as text on a screen. Every fact is a word or a number: colour and bold only repeat them.

mod lists;
mod services;
mod summary;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::state::{State, View};

/// Below this, lines are not worth reading.
const LEAST: (u16, u16) = (24, 6);

pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let mut canvas = Canvas { buffer: frame.buffer_mut(), area, has_colour: state.has_colour };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return canvas.line(0, &format!("too small: {}x{} at least", LEAST.0, LEAST.1), Look::Plain);
    }
    summary::head(state, &mut canvas);
    match &state.view {
        View::Services => services::draw(state, &mut canvas),
        View::Endpoints(_) => lists::endpoints(state, &mut canvas),
        View::Changes => lists::changes(state, &mut canvas),
        View::Help => lists::help(&mut canvas),
    }
    summary::foot(state, &mut canvas);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Plain,
    Heading,
    Marked,
    Wrong,
    Quiet,
}

/// The screen by lines.
pub(crate) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    pub(crate) area: Rect,
    has_colour: bool,
}

impl Canvas<'_> {
    pub(crate) fn width(&self) -> u16 {
        self.area.width
    }

    /// Lines between the heading and the keys.
    pub(crate) fn rows(&self) -> usize {
        usize::from(self.area.height.saturating_sub(4))
    }

    /// Writes one line, cut at the edge.
    pub(crate) fn line(&mut self, y: u16, text: &str, look: Look) {
        if y >= self.area.height {
            return;
        }
        let style = self.style(look);
        let width = usize::from(self.area.width);
        let text = if look == Look::Marked { format!("{text:<width$}") } else { text.to_owned() };
        self.buffer.set_stringn(self.area.x, self.area.y + y, text, width, style);
    }

    /// A line of the body.
    pub(crate) fn row(&mut self, number: usize, text: &str, look: Look) {
        self.line(3 + number as u16, text, look);
    }

    fn style(&self, look: Look) -> Style {
        let coloured = |colour: Color| if self.has_colour { Style::new().fg(colour) } else { Style::new() };
        match look {
            Look::Plain => Style::new(),
            Look::Heading => coloured(Color::Cyan).add_modifier(Modifier::BOLD),
            Look::Marked => Style::new().add_modifier(Modifier::REVERSED),
            Look::Wrong => coloured(Color::Red),
            Look::Quiet => coloured(Color::DarkGray),
        }
    }
}

/// A cell of this width, aligned and cut. Two marks at the end of a cut name show that it is longer.
pub(crate) fn cell(text: &str, width: usize, is_number: bool) -> String {
    let length = text.chars().count();
    if length > width {
        let kept: String = text.chars().take(width.saturating_sub(2)).collect();
        return format!("{kept}{}", ".".repeat(width.min(2)));
    }
    if is_number { format!("{text:>width$}") } else { format!("{text:<width$}") }
}
