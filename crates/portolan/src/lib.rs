//! The program: flags become a configuration, and the configuration becomes a running node.
//!
//! It is a library so that tests and benchmarks can run its parts; the binary only calls [`main`].
#![forbid(unsafe_code)]

pub mod commands;
pub mod config;
pub mod control;
pub mod daemon;
mod duration;
mod events;
pub mod flags;
pub mod host;
mod log;
mod offline;

use clap::Parser;
use flags::{Cli, Command};

/// Runs the command line; the result is the exit status.
pub fn main() -> u8 {
    let cli = Cli::parse();
    match run(cli.command) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("portolan: {error:#}");
            commands::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<u8> {
    match command {
        Command::Proxy(flags) => daemon::run(&flags),
        Command::Render(flags) => commands::render(&flags),
        Command::Explain(flags) => commands::explain(&flags),
        Command::Services(flags) => commands::services(&flags),
        Command::Verify(flags) => commands::verify(&flags),
        Command::Diff(flags) => commands::diff(&flags),
        Command::Cleanup(flags) => commands::cleanup(&flags),
    }
}
