//! What an input does to the state.

use crate::keys;
use crate::state::{Input, Next, State};

impl State {
    pub fn update(&mut self, input: Input) -> Next {
        match input {
            Input::Key(key) => return keys::press(self, key),
            Input::Height(height) => self.height = height,
            Input::Reading(reading) => {
                self.problem = None;
                self.board.take(*reading);
                self.scroll = self.scroll.min(self.lines().saturating_sub(1));
            }
            Input::Failure(problem) => self.problem = Some(problem),
            Input::Stop => return Next::Quit,
        }
        Next::Draw
    }
}
