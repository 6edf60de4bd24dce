//! Log lines in the forms that Kubernetes' own programs write, so that what reads theirs reads ours.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// `I1115 16:00:00.000000    1234 file.rs:10] message`, or `"message" key="value"` if the event has fields; in UTC.
pub(crate) struct TextFormat;

/// `{"ts":1700000000000.123,"caller":"file.rs:10","msg":"message","v":0}`
pub(crate) struct JsonFormat;

impl<S, N> FormatEvent<S, N> for TextFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let now = jiff::Timestamp::now();
        writeln!(out, "{}", text_line(event.metadata(), &Content::of(event), &now, std::process::id()))
    }
}

impl<S, N> FormatEvent<S, N> for JsonFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        writeln!(out, "{}", json_line(event.metadata(), &Content::of(event), &jiff::Timestamp::now()))
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

/// An event's message, and its fields as JSON. What is called an error is `err`, as in Kubernetes.
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

    use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

    use super::*;

    /// Keeps every event as both formats write it, at a fixed time.
    struct Keep(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> Layer<S> for Keep {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let now: jiff::Timestamp = "2026-11-15T16:00:00.012345Z".parse().expect("a time");
            let (metadata, content) = (event.metadata(), Content::of(event));
            let lines = [text_line(metadata, &content, &now, 1234), json_line(metadata, &content, &now)];
            self.0.lock().expect("not poisoned").extend(lines);
        }
    }

    #[test]
    fn lines_are_as_kubernetes_programs_write_them() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(Keep(kept.clone())), || {
            tracing::info!("plain \"words\"");
            tracing::error!(error = "it broke", attempt = 3, "trying");
            tracing::debug!(full = true, "Syncing");
        });
        let lines = kept.lock().expect("not poisoned");
        let number = |line: &str| {
            let from = line.find("klog.rs:").expect("the file is named") + "klog.rs:".len();
            line[from..].split([']', '"']).next().expect("a number follows").to_owned()
        };
        let n: Vec<String> = lines.iter().map(|line| number(line)).collect();
        let expected = [
            format!("I1115 16:00:00.012345    1234 klog.rs:{}] plain \"words\"", n[0]),
            format!(
                "{{\"ts\":1794758400012.345,\"caller\":\"klog.rs:{}\",\"msg\":\"plain \\\"words\\\"\",\"v\":0}}",
                n[1]
            ),
            format!("E1115 16:00:00.012345    1234 klog.rs:{}] \"trying\" err=\"it broke\" attempt=3", n[2]),
            format!(
                "{{\"ts\":1794758400012.345,\"caller\":\"klog.rs:{}\",\"msg\":\"trying\",\"err\":\"it broke\",\"attempt\":3}}",
                n[3]
            ),
            format!("I1115 16:00:00.012345    1234 klog.rs:{}] \"Syncing\" full=true", n[4]),
            format!(
                "{{\"ts\":1794758400012.345,\"caller\":\"klog.rs:{}\",\"msg\":\"Syncing\",\"v\":2,\"full\":true}}",
                n[5]
            ),
        ];
        assert_eq!(*lines, expected);
    }
}
