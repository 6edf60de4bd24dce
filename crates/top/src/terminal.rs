//! The terminal: prepared for a screen, and given back as it was whatever ends the program.

use std::io::{IsTerminal, Stdout, stdin, stdout};
use std::panic;

use anyhow::{Context, bail};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};

/// An error where a full screen cannot be shown.
pub fn require_terminal(term: Option<&str>) -> anyhow::Result<()> {
    if !stdin().is_terminal() || !stdout().is_terminal() {
        bail!("portolan top needs a terminal: for a script or a file, use `portolan top --once`");
    }
    match term {
        None | Some("" | "dumb") => bail!(
            "portolan top needs a terminal that can move the cursor, and TERM is {:?}: set TERM, or use `portolan top --once`",
            term.unwrap_or_default()
        ),
        Some(_) => Ok(()),
    }
}

/// The alternate screen in raw mode, for as long as this value lives.
pub struct Screen {
    pub terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub fn open() -> anyhow::Result<Self> {
        restore_after_panic();
        let opened = enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen));
        let terminal = opened.and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        let terminal = terminal.inspect_err(|_| restore()).context("preparing the terminal")?;
        Ok(Self { terminal })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// All of it is tried: a terminal that is gone cannot be restored, and nothing is lost.
fn restore() {
    _ = disable_raw_mode();
    _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// The message must not be lost with the alternate screen. A panic of any thread ends the program, because the others would
/// go on to draw.
fn restore_after_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |information| {
        restore();
        report(information);
        std::process::exit(PANICKED);
    }));
}

/// The exit status of a Rust program that panics.
const PANICKED: i32 = 101;
