//! The log, on standard error or in a file: in klog's format, as component-base's JSON, or for terminals.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard};

use portolan_config::{Document, Level, Notice};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::klog::Format;
use crate::log_file::LogFile;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSettings {
    pub format: LogFormat,
    /// 0 normal, 2 every sync, 4 everything.
    pub verbosity: u8,
    /// Another verbosity for files whose names match a pattern; the first match applies.
    pub patterns: Vec<(String, u8)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For terminals, otherwise klog's format.
    #[default]
    Unset,
    Text,
    Json,
}

impl LogSettings {
    pub(crate) fn of(document: &Document) -> Self {
        let format = match document.text("logging.format") {
            "json" => LogFormat::Json,
            _ if document.is_given("logging.format") => LogFormat::Text,
            _ => LogFormat::Unset,
        };
        let verbosity = u8::try_from(document.integer("logging.verbosity")).unwrap_or(u8::MAX);
        Self { format, verbosity, patterns: document.patterns().to_vec() }
    }

    /// The verbosity of this source file.
    fn level(&self, file: &str) -> LevelFilter {
        let found = self.patterns.iter().find(|(pattern, _)| is_match(pattern, file));
        level_of(found.map_or(self.verbosity, |(_, verbosity)| *verbosity))
    }

    fn allows(&self, event: &Metadata<'_>) -> bool {
        *event.level() <= self.level(event.file().unwrap_or_default())
    }

    fn most_verbose(&self) -> LevelFilter {
        self.patterns.iter().map(|(_, verbosity)| level_of(*verbosity)).fold(level_of(self.verbosity), LevelFilter::max)
    }
}

fn level_of(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 | 1 => LevelFilter::INFO,
        2 | 3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Whether a pattern with `*` and `?` matches this file: its name without extension, or its path if the pattern has a
/// slash.
fn is_match(pattern: &str, file: &str) -> bool {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let name = path.rsplit('/').next().unwrap_or(path);
    glob(pattern.as_bytes(), if pattern.contains('/') { path } else { name }.as_bytes())
}

fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skipped| glob(rest, &text[skipped..])),
        ([b'?', pattern @ ..], [_, text @ ..]) => glob(pattern, text),
        ([one, pattern @ ..], [other, text @ ..]) if one == other => glob(pattern, text),
        _ => false,
    }
}

/// The current settings, once the log is started.
static RUNNING: OnceLock<RwLock<LogSettings>> = OnceLock::new();

/// Where the log goes instead of standard error.
static FILE: OnceLock<Mutex<LogFile>> = OnceLock::new();

/// Writes events to standard error or to the file. This program has no spans.
struct Log(Format);

impl Subscriber for Log {
    fn enabled(&self, event: &Metadata<'_>) -> bool {
        current().is_some_and(|settings| settings.allows(event))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        current().map(|settings| settings.most_verbose())
    }

    fn event(&self, event: &Event<'_>) {
        let line = self.0.line(event, &jiff::Timestamp::now(), std::process::id());
        // A failure to write the log does not stop the program.
        _ = match FILE.get() {
            Some(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write(&line),
            None => std::io::stderr().write_all(line.as_bytes()),
        };
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn current() -> Option<RwLockReadGuard<'static, LogSettings>> {
    RUNNING.get().map(|settings| settings.read().unwrap_or_else(PoisonError::into_inner))
}

/// The log goes to this file from now on.
pub(crate) fn write_to(path: &Path) -> std::io::Result<()> {
    _ = FILE.set(Mutex::new(LogFile::open(path)?));
    Ok(())
}

/// Starts the log. Only the first call has an effect.
pub(crate) fn start(settings: &LogSettings) {
    let format = match settings.format {
        LogFormat::Json => Format::Json,
        LogFormat::Unset if std::io::stderr().is_terminal() => Format::Terminal,
        LogFormat::Unset | LogFormat::Text => Format::Text,
    };
    if RUNNING.set(RwLock::new(settings.clone())).is_ok() {
        _ = tracing::subscriber::set_global_default(Log(format));
    }
}

/// Applies new settings. The format stays as it was at the start.
pub(crate) fn set(settings: &LogSettings) {
    let Some(running) = RUNNING.get() else { return };
    *running.write().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    // Callsites cache whether they are enabled.
    tracing::callsite::rebuild_interest_cache();
}

/// For `/debug/flags/v`: takes the new verbosity as text, and returns the response.
pub(crate) fn set_verbosity(text: &str) -> Result<String, String> {
    let verbosity = text.trim().parse().map_err(|_| format!("{text:?} is not a verbosity: write a number from 0"))?;
    let settings = current().ok_or("the log is not started")?.clone();
    set(&LogSettings { verbosity, ..settings });
    Ok(format!("successfully set klog.logging.verbosity to {verbosity}"))
}

pub(crate) fn notices(notices: &[Notice]) {
    for notice in notices {
        match notice.level {
            Level::Info => tracing::info!("{}", notice.text),
            Level::Warning => tracing::warn!("{}", notice.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_gives_its_files_a_verbosity_of_their_own() {
        let patterns = vec![("dae*".to_owned(), 4), ("*/nftables/*".to_owned(), 2)];
        let settings = LogSettings { patterns, ..LogSettings::default() };
        assert_eq!(settings.level("crates/portolan/src/daemon.rs"), LevelFilter::TRACE);
        assert_eq!(settings.level("crates/dataplane/src/nftables/apply.rs"), LevelFilter::DEBUG);
        assert_eq!(settings.level("crates/portolan/src/events.rs"), LevelFilter::INFO);
        assert_eq!(settings.most_verbose(), LevelFilter::TRACE);
    }

    #[test]
    fn question_marks_stand_for_one_letter() {
        assert!(is_match("d?emon", "x/daemon.rs") && !is_match("d?emon", "x/demon.rs"));
        assert!(is_match("*", "x/daemon.rs") && !is_match("", "x/daemon.rs"));
    }
}
