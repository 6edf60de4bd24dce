//! Changes as lines for people.

use jiff::Timestamp;

use super::{Cause, ChangeEntry, ChangeKind, ChangesAnswer, Drift};
use crate::difference::BehaviourChange;
use crate::printable::printable;
use crate::table::{Style, table};

const HEADING: [&str; 4] = ["TIME", "LATENCY", "CAUSE", "EFFECT"];
/// Lines of one cell.
const MOST_LINES: usize = 6;

impl ChangesAnswer {
    pub fn text(&self, style: Style) -> String {
        if self.changes.is_empty() {
            return "no changes\n".into();
        }
        let rows: Vec<Vec<String>> = self.changes.iter().map(ChangeEntry::cells).collect();
        let listing = table(&HEADING, &rows, style);
        let missing = if self.is_complete { "" } else { "earlier changes are not kept\n" };
        format!("{missing}{listing}")
    }
}

impl ChangeEntry {
    /// UTC, with milliseconds.
    pub fn time(&self) -> String {
        let time = i64::try_from(self.unix_ms).ok().and_then(|time| Timestamp::from_millisecond(time).ok());
        time.map_or("-".into(), |time| format!("{time:.3}"))
    }

    pub fn latency(&self) -> String {
        self.latency_ms.map_or("-".into(), |time| format!("{time:.1} ms"))
    }

    /// What led to it, a line for each cause.
    pub fn cause_lines(&self) -> Vec<String> {
        let drift = self.drift.iter().map(Drift::line);
        let causes = self.causes.iter().map(Cause::line);
        limited(drift.chain(causes).collect(), self.more_causes)
    }

    /// What it means for clients, a line for each address.
    pub fn effect_lines(&self) -> Vec<String> {
        let lines: Vec<String> = self.behaviour.iter().flat_map(behaviour_lines).collect();
        if !lines.is_empty() {
            return limited(lines, self.more_behaviour);
        }
        let repaired = self.drift.as_ref().map_or(0, |drift| drift.repaired);
        vec![match self.kind {
            ChangeKind::Start => format!("{} objects written", self.objects),
            ChangeKind::Failure => "the kernel is not programmed; retrying".into(),
            ChangeKind::Repair => format!("{repaired} objects repaired"),
            _ => "none for clients".into(),
        }]
    }

    /// In one line.
    pub fn line(&self) -> String {
        let [time, latency, causes, effects] =
            [self.time(), self.latency(), self.causes_in_one(), self.effects_in_one()];
        format!("{time}  {latency}  {causes}  =>  {effects}")
    }

    pub fn causes_in_one(&self) -> String {
        self.cause_lines().join("; ")
    }

    pub fn effects_in_one(&self) -> String {
        self.effect_lines().iter().map(|line| line.trim()).collect::<Vec<_>>().join("; ")
    }

    fn cells(&self) -> Vec<String> {
        vec![self.time(), self.latency(), self.cause_lines().join("\n"), self.effect_lines().join("\n")]
    }
}

fn limited(mut lines: Vec<String>, more: usize) -> Vec<String> {
    let more = more + lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    lines.extend((more > 0).then(|| format!("and {more} more")));
    lines
}

impl Cause {
    fn line(&self) -> String {
        let words = [&*self.kind, &self.name, &self.what].into_iter().filter(|word| !word.is_empty());
        printable(&words.collect::<Vec<_>>().join(" ")).into_owned()
    }
}

impl Drift {
    fn line(&self) -> String {
        let process = self.process.as_ref().map_or(String::new(), |process| format!(" (by {process})"));
        printable(&format!("{}{process}", self.what)).into_owned()
    }
}

fn behaviour_lines(change: &BehaviourChange) -> Vec<String> {
    let text = match (&change.before, &change.after) {
        (None, Some(after)) => format!("new: {after}"),
        (Some(_), None) => "gone".to_owned(),
        (Some(before), Some(after)) => format!("{after} (was: {before})"),
        (None, None) => String::new(),
    };
    vec![printable(&format!("{} {}: {text}", change.service, change.frontend)).into_owned()]
}
