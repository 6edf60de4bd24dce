//! A scenario file: one behaviour, as objects, packets and golden text.
//!
//! ```text
//! # cluster-ip
//! Free prose: what the behaviour is and why.
//! -- flags --
//! --cluster-cidr 10.244.0.0/16
//! -- objects.yaml --
//! apiVersion: v1
//! -- packets --
//! pod-a1 -> 10.96.0.10:80/tcp  forward 10.244.1.2:8080   # a comment
//! -- nftables --
//! golden text
//! ```
//!
//! `objects.yaml` and `packets` may repeat: each pair is a step that replaces the whole set of objects. A section `after 10s` is
//! a step in which time passes, and its lines are the connections that the node tracks meanwhile:
//! `10.244.1.4 -> 10.244.1.3:8080 waiting 3`. A section `connections` at the end of a step opens TCP connections that stay, or says
//! what becomes of those of earlier steps: `pod-a3 -> 10.96.0.80:80 10.244.1.2:8080 opened 2`. The golden sections come last, one per mode.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::open::OpenLine;
use crate::packet::{MODES, PacketLine};

#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// The file's name without its extension.
    pub name: String,
    pub title: String,
    pub prose: String,
    pub flags: Vec<String>,
    pub steps: Vec<Step>,
    /// The expected objects, by mode.
    pub golden: BTreeMap<String, String>,
    text: String,
}

/// One state of the cluster, and the packets that are sent in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub objects: String,
    /// The line of the file on which the objects begin.
    pub objects_line: usize,
    /// The time that passes before the packets are sent, and the connections that are tracked meanwhile.
    pub passes: Duration,
    pub connections: Vec<ConnectionLine>,
    pub packets: Vec<PacketLine>,
    /// Connections that stay open after the step, and those of earlier steps.
    pub open: Vec<OpenLine>,
}

/// Connections of a client to an endpoint, as the node tracks them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLine {
    pub client: IpAddr,
    pub endpoint: SocketAddr,
    /// `waiting`, `answered` or `established`.
    pub stage: String,
    pub count: u16,
}

impl ConnectionLine {
    fn parse(text: &str) -> Result<Self, String> {
        let malformed = || format!("{text:?} is not `CLIENT -> ENDPOINT STAGE COUNT`");
        let words: Vec<&str> = text.split_whitespace().collect();
        let [client, "->", endpoint, stage, count] = words[..] else { return Err(malformed()) };
        if !["waiting", "answered", "established"].contains(&stage) {
            return Err(malformed());
        }
        Ok(Self {
            client: client.parse().map_err(|_| malformed())?,
            endpoint: endpoint.parse().map_err(|_| malformed())?,
            stage: stage.to_owned(),
            count: count.parse().map_err(|_| malformed())?,
        })
    }
}

impl Scenario {
    pub fn load(path: impl AsRef<Path>) -> Result<Scenario, Error> {
        let path = path.as_ref();
        let text = fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let scenario = parse(&text).map_err(|problem| problem.in_file(&path.display().to_string()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Scenario { name, ..scenario })
    }

    pub fn parse(name: &str, text: &str) -> Result<Scenario, Error> {
        let scenario = parse(text).map_err(|problem| problem.in_file(name))?;
        Ok(Scenario { name: name.to_owned(), ..scenario })
    }

    /// Every `*.txt` of the folder, sorted by name.
    pub fn all(folder: impl AsRef<Path>) -> Result<Vec<Scenario>, Error> {
        let mut paths = text_files(folder.as_ref())?;
        paths.sort();
        paths.iter().map(Scenario::load).collect()
    }

    /// Whether time passes in it.
    pub fn has_time(&self) -> bool {
        self.steps.iter().any(|step| !step.passes.is_zero())
    }

    /// The whole file with the golden section of `mode` replaced, or appended if there is none; every other byte stays.
    pub fn with_golden(&self, mode: &str, golden: &str) -> String {
        let golden = ended(golden);
        match sections(&self.text).iter().find(|section| section.name == mode) {
            Some(section) => {
                let Range { start, end } = section.body.clone();
                format!("{}{golden}{}", ended(&self.text[..start]), &self.text[end..])
            }
            None => format!("{}-- {mode} --\n{golden}", ended(&self.text)),
        }
    }
}

/// A heading `-- NAME --` and the bytes up to the next one.
struct Section<'a> {
    name: &'a str,
    /// The line and the first byte of the heading.
    line: usize,
    start: usize,
    body: Range<usize>,
}

struct Problem {
    line: usize,
    reason: String,
}

impl Problem {
    fn new(line: usize, reason: impl Into<String>) -> Problem {
        Problem { line, reason: reason.into() }
    }

    fn in_file(self, file: &str) -> Error {
        Error::Scenario { file: file.to_owned(), line: self.line, reason: self.reason }
    }
}

fn parse(text: &str) -> Result<Scenario, Problem> {
    let sections = sections(text);
    let mut scenario = parse_preamble(&text[..sections.first().map_or(text.len(), |first| first.start)])?;
    let mut previous = "";
    for section in &sections {
        let misplaced = |reason| Problem::new(section.line, reason);
        check_order(previous, section.name).map_err(misplaced)?;
        scenario.add(section, &text[section.body.clone()])?;
        previous = section.name;
    }
    if scenario.steps.is_empty() {
        return Err(Problem::new(text.lines().count().max(1), "the scenario has no `-- objects.yaml --` section"));
    }
    Ok(Scenario { text: text.to_owned(), ..scenario })
}

/// The title line, which is a comment, and the prose below it.
fn parse_preamble(preamble: &str) -> Result<Scenario, Problem> {
    let (first, prose) = preamble.split_once('\n').unwrap_or((preamble, ""));
    let title = first.strip_prefix('#').map(str::trim).filter(|title| !title.is_empty());
    let title = title.ok_or_else(|| Problem::new(1, "a scenario begins with its title, `# TITLE`"))?;
    Ok(Scenario { title: title.to_owned(), prose: prose.trim().to_owned(), ..Scenario::default() })
}

/// Flags, then steps, then golden text; `previous` is empty before the first section.
fn check_order(previous: &str, name: &str) -> Result<(), String> {
    let golden_began = MODES.contains(&previous);
    match name {
        "flags" if !previous.is_empty() => Err("`flags` is the first section, and the only one of its name".to_owned()),
        "packets" if previous != "objects.yaml" && time(previous).is_none() => {
            Err("`packets` comes once, right after an `objects.yaml`".to_owned())
        }
        "connections" if !["objects.yaml", "packets"].contains(&previous) && time(previous).is_none() => {
            Err("`connections` comes once, at the end of a step".to_owned())
        }
        name if time(name).is_some() => match previous {
            "" | "flags" => Err("time passes after a first `objects.yaml`".to_owned()),
            _ if golden_began => Err("time passes before the golden sections".to_owned()),
            _ => Ok(()),
        },
        "objects.yaml" if golden_began => Err("`objects.yaml` comes before the golden sections".to_owned()),
        "flags" | "packets" | "objects.yaml" | "connections" => Ok(()),
        mode if MODES.contains(&mode) => Ok(()),
        unknown => {
            let modes = MODES.join(", ");
            Err(format!("`{unknown}` is not a section; allowed are flags, objects.yaml, packets, connections, {modes}"))
        }
    }
}

impl Scenario {
    fn add(&mut self, section: &Section<'_>, body: &str) -> Result<(), Problem> {
        if let Some(time) = time(section.name) {
            return self.add_time(time, section.line + 1, body);
        }
        match section.name {
            "flags" => self.flags = parse_flags(body),
            "objects.yaml" => self.steps.push(Step::new(section.line + 1, body)),
            "packets" => self.add_packets(section.line + 1, body)?,
            "connections" => self.add_open(section.line + 1, body)?,
            mode => self.add_golden(section.line, mode, body)?,
        }
        Ok(())
    }

    /// A step with the same objects.
    fn add_time(&mut self, passes: Duration, first_line: usize, body: &str) -> Result<(), Problem> {
        let before = self.steps.last().expect("the order was checked");
        let mut step = Step { passes, ..Step::new(before.objects_line, &before.objects) };
        for (line, text) in (first_line..).zip(body.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            step.connections.push(ConnectionLine::parse(text).map_err(|reason| Problem::new(line, reason))?);
        }
        self.steps.push(step);
        Ok(())
    }

    fn add_packets(&mut self, first_line: usize, body: &str) -> Result<(), Problem> {
        let packets = &mut self.steps.last_mut().expect("the order was checked").packets;
        for (line, text) in (first_line..).zip(body.lines()) {
            packets.extend(PacketLine::parse(line, text).map_err(|reason| Problem::new(line, reason))?);
        }
        Ok(())
    }

    fn add_open(&mut self, first_line: usize, body: &str) -> Result<(), Problem> {
        let open = &mut self.steps.last_mut().expect("the order was checked").open;
        for (line, text) in (first_line..).zip(body.lines()) {
            open.extend(OpenLine::parse(line, text).map_err(|reason| Problem::new(line, reason))?);
        }
        Ok(())
    }

    fn add_golden(&mut self, line: usize, mode: &str, body: &str) -> Result<(), Problem> {
        match self.golden.insert(mode.to_owned(), body.to_owned()) {
            None => Ok(()),
            Some(_) => Err(Problem::new(line, format!("a second `{mode}` section; there is one per mode"))),
        }
    }
}

impl Step {
    fn new(objects_line: usize, objects: &str) -> Step {
        Step { objects: objects.to_owned(), objects_line, ..Step::default() }
    }
}

/// The time of a heading `after 10s`.
fn time(heading: &str) -> Option<Duration> {
    let seconds = heading.strip_prefix("after ")?.strip_suffix('s')?;
    seconds.parse().ok().map(Duration::from_secs)
}

fn parse_flags(body: &str) -> Vec<String> {
    let lines = body.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut start = 0;
    for (line, content) in (1..).zip(text.split_inclusive('\n')) {
        let end = start + content.len();
        match heading(content) {
            Some(name) => sections.push(Section { name, line, start, body: end..end }),
            None => extend(sections.last_mut(), end),
        }
        start = end;
    }
    sections
}

/// Text before the first heading belongs to no section.
fn extend(section: Option<&mut Section<'_>>, end: usize) {
    if let Some(section) = section {
        section.body.end = end;
    }
}

fn heading(line: &str) -> Option<&str> {
    let name = line.trim_end().strip_prefix("-- ")?.strip_suffix(" --")?;
    Some(name.trim())
}

/// The text with a line break at its end, unless it is empty.
fn ended(text: &str) -> String {
    let missing = !text.is_empty() && !text.ends_with('\n');
    format!("{text}{}", if missing { "\n" } else { "" })
}

fn text_files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |source| Error::Read { path: folder.to_owned(), source };
    let entries: Vec<_> = fs::read_dir(folder).and_then(Iterator::collect).map_err(unreadable)?;
    let paths = entries.iter().map(fs::DirEntry::path);
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "txt")).collect())
}
