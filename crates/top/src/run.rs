//! The loop: inputs from the keyboard, the daemon and signals, each a thread that sends into one channel.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use portolan_kernel::signal::TerminationSignals;
use ratatui::crossterm::event::{self, Event};

use crate::state::{Input, Next, State};
use crate::terminal::Screen;
use crate::{Reading, draw};

/// Which endpoints the next reading has, besides all Services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub service: Option<String>,
}

/// Asks the daemon; an error is shown, and the next question tries again.
pub type Ask = Box<dyn FnMut(&Wanted) -> anyhow::Result<Reading> + Send>;

/// Until a key or a signal ends it.
pub fn run(mut state: State, ask: Ask, interval: Duration, signals: TerminationSignals) -> anyhow::Result<()> {
    let mut screen = Screen::open()?;
    let (sender, inputs) = channel();
    let (wanted, questions) = channel();
    start("keyboard", keyboard, sender.clone())?;
    start("signals", move |inputs| stop_on(&signals, inputs), sender.clone())?;
    start("daemon", move |inputs| ask_again_and_again(ask, interval, &questions, inputs), sender)?;
    state.height = screen.terminal.size().context("reading the size of the terminal")?.height;
    loop {
        screen.terminal.draw(|frame| draw(&state, frame)).context("writing to the terminal")?;
        match follow(&mut state, &inputs)? {
            Next::Draw => {}
            Next::Ask => _ = wanted.send(Wanted { service: state.service().map(str::to_owned) }),
            Next::Quit => return Ok(()),
        }
    }
}

/// All inputs that have arrived: a paste, or a resize by many steps, is drawn once.
fn follow(state: &mut State, inputs: &Receiver<Input>) -> anyhow::Result<Next> {
    let mut next = state.update(inputs.recv().context("no input is left")?);
    while next == Next::Draw
        && let Ok(input) = inputs.try_recv()
    {
        next = state.update(input);
    }
    Ok(next)
}

fn start(name: &str, work: impl FnOnce(Sender<Input>) + Send + 'static, inputs: Sender<Input>) -> anyhow::Result<()> {
    thread::Builder::new().name(name.into()).spawn(move || work(inputs)).context("starting a thread")?;
    Ok(())
}

/// A terminal that is gone, as after the end of an ssh connection, ends the program.
fn keyboard(inputs: Sender<Input>) {
    loop {
        let input = match event::read() {
            Ok(Event::Key(key)) => Input::Key(key),
            Ok(Event::Resize(_, height)) => Input::Height(height),
            Ok(_) => continue,
            Err(_) => Input::Stop,
        };
        let is_end = matches!(input, Input::Stop);
        if inputs.send(input).is_err() || is_end {
            return;
        }
    }
}

fn stop_on(signals: &TerminationSignals, inputs: Sender<Input>) {
    signals.wait();
    _ = inputs.send(Input::Stop);
}

/// Once per interval, and at once when another view needs it.
fn ask_again_and_again(mut ask: Ask, interval: Duration, questions: &Receiver<Wanted>, inputs: Sender<Input>) {
    let mut wanted = Wanted::default();
    loop {
        let input = match ask(&wanted) {
            Ok(reading) => Input::Reading(Box::new(reading)),
            Err(error) => Input::Failure(format!("{error:#}")),
        };
        if inputs.send(input).is_err() {
            return;
        }
        match questions.recv_timeout(interval) {
            Ok(other) => wanted = other,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
