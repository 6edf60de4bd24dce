//! The Prometheus text format, version 0.0.4.

use std::fmt::Write;

use super::descriptor::{Descriptor, Kind, Value};

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

#[derive(Default)]
pub(crate) struct Page(String);

impl Page {
    /// A family without series is omitted.
    pub(crate) fn family(&mut self, descriptor: &Descriptor, series: impl FnOnce(&mut FamilyText<'_>)) {
        let start = self.0.len();
        let Descriptor { name, help, kind, .. } = descriptor;
        self.line(format_args!("# HELP {name} {}", escape(help, false)));
        self.line(format_args!("# TYPE {name} {}", kind.name()));
        let header = self.0.len();
        series(&mut FamilyText { page: self, descriptor });
        if self.0.len() == header {
            self.0.truncate(start);
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string cannot fail");
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

pub(crate) struct FamilyText<'a> {
    page: &'a mut Page,
    descriptor: &'a Descriptor,
}

impl FamilyText<'_> {
    pub(crate) fn value(&mut self, labels: &[String], value: &Value) {
        let pairs: Vec<String> = self.descriptor.labels.iter().zip(labels).map(pair).collect();
        match &self.descriptor.kind {
            Kind::Histogram(bounds) => self.histogram(&pairs, bounds, value),
            Kind::Counter | Kind::Gauge => self.sample("", &pairs, value.number),
        }
    }

    /// Buckets are cumulative, and the last one contains everything.
    fn histogram(&mut self, pairs: &[String], bounds: &[f64], value: &Value) {
        let mut count = 0;
        for (bound, observed) in bounds.iter().chain([&f64::INFINITY]).zip(&value.buckets) {
            count += observed;
            let mut pairs = pairs.to_vec();
            pairs.push(format!("le=\"{}\"", number(*bound)));
            self.sample("_bucket", &pairs, count as f64);
        }
        self.sample("_sum", pairs, value.number);
        self.sample("_count", pairs, count as f64);
    }

    fn sample(&mut self, suffix: &str, pairs: &[String], value: f64) {
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        self.page.line(format_args!("{}{suffix}{labels} {}", self.descriptor.name, number(value)));
    }
}

fn pair((name, value): (&&str, &String)) -> String {
    format!("{name}=\"{}\"", escape(value, true))
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

/// Quotes are escaped in labels, but not in help.
fn escape(text: &str, is_label: bool) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    if is_label { escaped.replace('"', "\\\"") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::super::registry::Registry;
    use super::*;

    fn page(kind: Kind, labels: &'static [&'static str], fill: impl FnOnce(&super::super::registry::Metric)) -> String {
        let mut registry = Registry::default();
        fill(&registry.register(Descriptor { name: "it", kind, labels, help: "What \"it\" is.\\\nReally." }));
        registry.render(Vec::new())
    }

    #[test]
    fn hostile_text_is_escaped() {
        let text = page(Kind::Gauge, &["name"], |metric| metric.set(&["a\"b\\c\nd"], 1.5));
        let expected = "# HELP it What \"it\" is.\\\\\\nReally.\n# TYPE it gauge\nit{name=\"a\\\"b\\\\c\\nd\"} 1.5\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_in_infinity() {
        let text = page(Kind::Histogram([0.5, 1.0].into()), &[], |metric| {
            [0.5, 0.75, 9.0].iter().for_each(|it| metric.observe(&[], *it));
        });
        let values: Vec<&str> = text.lines().skip(2).collect();
        let buckets = ["it_bucket{le=\"0.5\"} 1", "it_bucket{le=\"1\"} 2", "it_bucket{le=\"+Inf\"} 3"];
        assert_eq!(values[..3], buckets);
        assert_eq!(values[3..], ["it_sum 10.25", "it_count 3"]);
    }

    #[test]
    fn a_metric_without_series_is_omitted() {
        assert_eq!(page(Kind::Counter, &["name"], |_| ()), "");
        assert_eq!(page(Kind::Counter, &[], |_| ()).lines().last(), Some("it 0"));
    }
}
