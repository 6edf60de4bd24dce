//! Log lines in the formats of Kubernetes' own programs, so that existing log pipelines can parse them.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `I1115 16:00:00.000000    1234 file.rs:10] message`, or `"message" key="value"` if the event has fields; in UTC.
    Text,
    /// `{"ts":1700000000000.123,"caller":"file.rs:10","msg":"message","v":0}`
    Json,
    /// `2026-11-15T16:00:00.012345Z  INFO message key="value"`, in colour.
    Terminal,
}

impl Format {
    /// The event as a line, with its line break.
    pub(crate) fn line(self, event: &Event<'_>, now: &jiff::Timestamp, process: u32) -> String {
        let (metadata, content) = (event.metadata(), Content::of(event));
        let mut line = match self {
            Self::Text => text_line(metadata, &content, now, process),
            Self::Json => json_line(metadata, &content, now),
            Self::Terminal => terminal_line(metadata, &content, now),
        };
        line.push('\n');
        line
    }
}

fn text_line(metadata: &Metadata<'_>, content: &Content, now: &jiff::Timestamp, process: u32) -> String {
    let letter = match *metadata.level() {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let time = now.strftime("%m%d %H:%M:%S");
    let microseconds = now.subsec_microsecond();
    let mut line = format!("{letter}{time}.{microseconds:06} {process:>7} {}] ", caller(metadata));
    match &*content.fields {
        [] => line.push_str(&content.message),
        fields => {
            _ = write!(line, "{:?}", content.message);
            fields.iter().for_each(|(name, value)| _ = write!(line, " {name}={value}"));
        }
    }
    line
}

fn json_line(metadata: &Metadata<'_>, content: &Content, now: &jiff::Timestamp) -> String {
    let milliseconds = now.as_microsecond() as f64 / 1000.0;
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let mut line =
        format!("{{\"ts\":{milliseconds},\"caller\":{},\"msg\":{}", text(&caller(metadata)), text(&content.message));
    if *metadata.level() != Level::ERROR {
        _ = write!(line, ",\"v\":{}", verbosity(*metadata.level()));
    }
    content.fields.iter().for_each(|(name, value)| _ = write!(line, ",{}:{value}", text(name)));
    line + "}"
}

/// Conventional colours: red for errors, yellow for warnings, green otherwise.
fn terminal_line(metadata: &Metadata<'_>, content: &Content, now: &jiff::Timestamp) -> String {
    let colour = match *metadata.level() {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    let (level, message) = (metadata.level(), &content.message);
    let mut line = format!("\x1b[2m{now:.6}\x1b[0m \x1b[{colour}m{level:>5}\x1b[0m {message}");
    content.fields.iter().for_each(|(name, value)| _ = write!(line, " \x1b[3m{name}\x1b[0m={value}"));
    line
}

fn verbosity(level: Level) -> u8 {
    match level {
        Level::TRACE => 4,
        Level::DEBUG => 2,
        _ => 0,
    }
}

fn caller(metadata: &Metadata<'_>) -> String {
    let file = metadata.file().unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("{name}:{}", metadata.line().unwrap_or(0))
}

/// An event's message, and its fields as JSON. A field named `error` becomes `err`, as in Kubernetes.
#[derive(Default)]
struct Content {
    message: String,
    fields: Vec<(&'static str, serde_json::Value)>,
}

impl Content {
    fn of(event: &Event<'_>) -> Self {
        let mut content = Self::default();
        event.record(&mut content);
        content
    }

    fn add(&mut self, field: &Field, value: serde_json::Value) {
        let name = if field.name() == "error" { "err" } else { field.name() };
        self.fields.push((name, value));
    }
}

impl Visit for Content {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.add(field, format!("{value:?}").into()),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message = value.into(),
            _ => self.add(field, value.into()),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value.into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::Subscriber;
    use tracing::span::{Attributes, Id, Record};

    use super::*;

    /// Stores every event in all formats, at a fixed time.
    struct Keep(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Keep {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn event(&self, event: &Event<'_>) {
            let now: jiff::Timestamp = "2026-11-15T16:00:00.012345Z".parse().expect("a time");
            let formats = [Format::Text, Format::Json, Format::Terminal];
            self.0.lock().expect("not poisoned").extend(formats.map(|format| format.line(event, &now, 1234)));
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn lines_are_as_kubernetes_programs_write_them() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Keep(kept.clone()), || {
            tracing::info!("plain \"words\"");
            tracing::error!(error = "it broke", attempt = 3, "trying");
            tracing::debug!(full = true, "Syncing");
        });
        let lines = kept.lock().expect("not poisoned");
        let number = |line: &str| {
            let from = line.find("klog.rs:").expect("the file is named") + "klog.rs:".len();
            line[from..].split([']', '"']).next().expect("a number follows").to_owned()
        };
        let n: Vec<String> = lines.chunks(3).map(|formats| number(&formats[0])).collect();
        let expected = [
            format!("I1115 16:00:00.012345    1234 klog.rs:{}] plain \"words\"\n", n[0]),
            format!(
                "{{\"ts\":1794758400012.345,\"caller\":\"klog.rs:{}\",\"msg\":\"plain \\\"words\\\"\",\"v\":0}}\n",
                n[0]
            ),
            "\x1b[2m2026-11-15T16:00:00.012345Z\x1b[0m \x1b[32m INFO\x1b[0m plain \"words\"\n".to_owned(),
            format!("E1115 16:00:00.012345    1234 klog.rs:{}] \"trying\" err=\"it broke\" attempt=3\n", n[1]),
            format!(
                "{{\"ts\":1794758400012.345,\"caller\":\"klog.rs:{}\",\"msg\":\"trying\",\"err\":\"it broke\",\"attempt\":3}}\n",
                n[1]
            ),
            "\x1b[2m2026-11-15T16:00:00.012345Z\x1b[0m \x1b[31mERROR\x1b[0m trying \x1b[3merr\x1b[0m=\"it broke\" \
             \x1b[3mattempt\x1b[0m=3\n"
                .to_owned(),
            format!("I1115 16:00:00.012345    1234 klog.rs:{}] \"Syncing\" full=true\n", n[2]),
            format!(
                "{{\"ts\":1794758400012.345,\"caller\":\"klog.rs:{}\",\"msg\":\"Syncing\",\"v\":2,\"full\":true}}\n",
                n[2]
            ),
            "\x1b[2m2026-11-15T16:00:00.012345Z\x1b[0m \x1b[34mDEBUG\x1b[0m Syncing \x1b[3mfull\x1b[0m=true\n"
                .to_owned(),
        ];
        assert_eq!(*lines, expected);
    }
}
