//! The log, on standard error.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

pub(crate) fn start(verbosity: u8) {
    let level = match verbosity {
        0 | 1 => LevelFilter::INFO,
        2 | 3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
