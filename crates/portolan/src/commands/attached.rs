//! A command that another machine has started, and that ends with the connection to it.
//!
//! Kubernetes does not end a command whose user has gone. Without a terminal, its standard input ends; with one, nothing is
//! read of what it prints, until there is no room for more.

use std::io::{IsTerminal, Read};
use std::time::Duration;

use anyhow::Context;

use crate::system;

/// How long a terminal may take no output, and how often it is asked.
const LONGEST_PAUSE: u32 = 30;
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// Ends this process when the connection has ended.
pub(crate) fn end_with_connection() -> anyhow::Result<()> {
    let watch = if std::io::stdin().is_terminal() { watch_terminal } else { watch_input };
    std::thread::Builder::new().name("connection".into()).spawn(watch).map(drop).context("starting a thread")
}

fn watch_input() {
    let mut nothing = [0; 512];
    while let Ok(1..) = std::io::stdin().lock().read(&mut nothing) {}
    std::process::exit(crate::exit::SUCCESS.into());
}

fn watch_terminal() {
    let mut full = 0;
    while full < LONGEST_PAUSE {
        std::thread::sleep(BETWEEN_LOOKS);
        full = if system::output_has_room() { 0 } else { full + 1 };
    }
    std::process::exit(crate::exit::FAILURE.into());
}
