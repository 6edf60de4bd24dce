//! The checks of `promtool check metrics`, and the syntax that it assumes, so that no test needs promtool.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
struct Family {
    help: bool,
    kind: String,
    samples: usize,
}

/// All problems of a page.
pub(crate) fn problems(page: &str) -> Vec<String> {
    let mut reader = Reader::default();
    page.lines().for_each(|line| reader.line(line));
    if !page.is_empty() && !page.ends_with('\n') {
        reader.problems.push("the page does not end in a line break".into());
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    families: BTreeMap<String, Family>,
    order: Vec<String>,
    series: BTreeSet<String>,
    /// By histogram and labels: the buckets so far, as bound and count.
    buckets: BTreeMap<(String, String), Vec<(f64, f64)>>,
    counts: BTreeMap<(String, String), f64>,
    sums: BTreeSet<(String, String)>,
    problems: Vec<String>,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => self.help(name, help),
            ["#", "TYPE", name, kind] => self.kind(name, kind),
            _ if line.starts_with('#') || line.trim().is_empty() => self.problems.push(format!("odd line {line:?}")),
            _ => self.sample(line),
        }
    }

    fn help(&mut self, name: &str, help: &str) {
        if self.families.contains_key(name) {
            self.problems.push(format!("{name} has two HELP lines"));
        }
        self.order.push(name.to_owned());
        self.families.insert(name.to_owned(), Family { help: !help.trim().is_empty(), ..Family::default() });
    }

    fn kind(&mut self, name: &str, kind: &str) {
        match self.families.get_mut(name) {
            Some(family) if family.kind.is_empty() && family.samples == 0 => family.kind = kind.to_owned(),
            _ => self.problems.push(format!("TYPE of {name} does not follow its HELP")),
        }
    }

    fn sample(&mut self, line: &str) {
        let Some((name, labels, value)) = parse_sample(line) else {
            self.problems.push(format!("not a sample: {line:?}"));
            return;
        };
        if !self.series.insert(format!("{name}{labels:?}")) {
            self.problems.push(format!("twice: {line}"));
        }
        let Some(current) = self.order.last().cloned() else {
            self.problems.push(format!("{name} has no family"));
            return;
        };
        let family = self.families.get_mut(&current).expect("what is in the order is known");
        family.samples += 1;
        let suffix = name.strip_prefix(&*current);
        match (family.kind.as_str(), suffix) {
            ("counter" | "gauge", Some("")) => self.plain(&name, &labels),
            ("histogram", Some(suffix @ ("_bucket" | "_sum" | "_count"))) => self.part(current, suffix, labels, value),
            _ => self.problems.push(format!("{name} stands below {current}")),
        }
    }

    fn plain(&mut self, name: &str, labels: &[(String, String)]) {
        let reserved = labels.iter().filter(|(label, _)| matches!(label.as_str(), "le" | "quantile"));
        self.problems.extend(reserved.map(|(label, _)| format!("{name} has the reserved label {label}")));
    }

    fn part(&mut self, family: String, suffix: &str, mut labels: Vec<(String, String)>, value: f64) {
        let bound = labels.iter().position(|(label, _)| label == "le").map(|at| labels.remove(at).1);
        let key = (family, format!("{labels:?}"));
        match (suffix, bound) {
            ("_bucket", Some(bound)) => {
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap_or(f64::NAN) };
                self.buckets.entry(key).or_default().push((bound, value));
            }
            ("_count", None) => _ = self.counts.insert(key, value),
            ("_sum", None) => _ = self.sums.insert(key),
            (suffix, bound) => self.problems.push(format!("{key:?}: {suffix} with bound {bound:?}")),
        }
    }

    fn finish(mut self) -> Vec<String> {
        if !self.order.is_sorted() {
            self.problems.push("families are not in the order of their names".into());
        }
        for (key, buckets) in &self.buckets {
            let rises = buckets.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
            let last = buckets.last().filter(|(bound, _)| *bound == f64::INFINITY).map(|(_, count)| *count);
            if !rises || last.is_none() || last != self.counts.get(key).copied() || !self.sums.contains(key) {
                self.problems.push(format!("{key:?} is no proper histogram"));
            }
        }
        for (name, family) in &self.families {
            self.problems.extend(naming(name, family).into_iter().map(|what| format!("{name}: {what}")));
        }
        self.problems
    }
}

/// The conventions about names.
fn naming(name: &str, family: &Family) -> Vec<&'static str> {
    let words: Vec<&str> = name.split('_').collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(word));
    let ends = |suffix: &str| name.ends_with(suffix);
    let is = |kind: &str| family.kind == kind;
    [
        (!family.help, "no help text"),
        (family.kind.is_empty(), "no type"),
        (family.samples == 0, "no samples"),
        (is("counter") && !ends("_total"), "a counter should end in _total"),
        (!is("counter") && ends("_total"), "only a counter should end in _total"),
        (!is("histogram") && ends("_bucket"), "only a histogram should end in _bucket"),
        (!is("histogram") && (ends("_count") || ends("_sum")), "only a histogram should end in _count or _sum"),
        (name.contains(':'), "colons are for recording rules"),
        (name.chars().any(char::is_uppercase), "words are set apart by underscores"),
        (words.contains(&family.kind.as_str()), "the type does not belong in the name"),
        (has(&["ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "m", "h", "d"]), "units are written out"),
        (has(OTHER_UNITS), "use the base unit"),
    ]
    .into_iter()
    .filter(|(is_wrong, _)| *is_wrong)
    .map(|(_, what)| what)
    .collect()
}

const OTHER_UNITS: &[&str] = &[
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "kelvin",
    "bits",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "percent",
];

type Labels = Vec<(String, String)>;

/// Name, labels and value of one line.
pub(crate) fn parse_sample(line: &str) -> Option<(String, Labels, f64)> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(labels) => parse_labels(labels)?,
        None => (Labels::new(), rest),
    };
    let value = rest.strip_prefix(' ')?;
    let value = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().ok()?,
    };
    is_name(name).then(|| (name.to_owned(), labels, value))
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|it: char| it.is_ascii_digit())
        && !text.is_empty()
        && text.chars().all(|it| it.is_ascii_alphanumeric() || matches!(it, '_' | ':'))
}

fn parse_labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Labels::new();
    loop {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = parse_value(after)?;
        let is_new = labels.iter().all(|(other, _)| other != name);
        labels.push((Some(name).filter(|name| is_name(name) && is_new)?.to_owned(), value));
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some((labels, after.strip_prefix('}')?)),
        }
    }
}

fn parse_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                other @ ('"' | '\\') => other,
                _ => return None,
            }),
            other => value.push(other),
        }
    }
    None
}

#[test]
fn a_good_page_has_no_problems() {
    let page = "# HELP a_seconds Time.\n# TYPE a_seconds histogram\na_seconds_bucket{le=\"1\"} 1\n\
                a_seconds_bucket{le=\"+Inf\"} 2\na_seconds_sum 3\na_seconds_count 2\n\
                # HELP things_total Things.\n# TYPE things_total counter\nthings_total{a=\"x\\\"\\\\\\n\"} 1\nthings_total{a=\"y\"} 1\n";
    assert_eq!(problems(page), Vec::<String>::new());
}

#[test]
fn each_fault_is_found() {
    let family = |name: &str, kind: &str, rest: &str| format!("# HELP {name} Help.\n# TYPE {name} {kind}\n{rest}");
    let histogram = |rest: &str| family("h", "histogram", rest);
    for (fault, page) in [
        ("twice", family("a_total", "counter", "a_total 1\na_total 2\n")),
        ("two HELP", family("a", "gauge", "a 1\n").repeat(2)),
        ("a counter should", family("a", "counter", "a 1\n")),
        ("only a counter", family("a_total", "gauge", "a_total 1\n")),
        ("not in the order", family("b", "gauge", "b 1\n") + &family("a", "gauge", "a 1\n")),
        ("stands below", family("a", "gauge", "b 1\n")),
        ("not a sample", family("a", "gauge", "a{b=\"c\"d=\"e\"} 1\n")),
        ("not a sample", family("a", "gauge", "a{b=\"\\x\"} 1\n")),
        ("not a sample", family("a", "gauge", "a one\n")),
        ("reserved label", family("a", "gauge", "a{le=\"1\"} 1\n")),
        ("no help", "# HELP a  \n# TYPE a gauge\na 1\n".to_owned()),
        ("base unit", family("a_milliseconds", "gauge", "a_milliseconds 1\n")),
        ("written out", family("a_ms", "gauge", "a_ms 1\n")),
        ("underscores", family("aB", "gauge", "aB 1\n")),
        ("in the name", family("a_gauge", "gauge", "a_gauge 1\n")),
        ("line break", family("a", "gauge", "a 1")),
        ("no samples", family("a", "gauge", "")),
        ("proper histogram", histogram("h_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n")),
        ("proper histogram", histogram("h_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n")),
        ("proper histogram", histogram("h_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 2\n")),
    ] {
        let found = problems(&page);
        assert!(found.iter().any(|problem| problem.contains(fault)), "{fault}: {found:?}");
    }
}
