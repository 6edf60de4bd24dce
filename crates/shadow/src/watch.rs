//! Repeated comparisons: which differences are new, and which have gone.

use std::collections::BTreeSet;

use portolan_plan::Plan;

use crate::compare::compare;
use crate::peer::{ReadError, read_peer};
use crate::report::{Line, Report};

/// What `portolan proxy --shadow` keeps from one comparison to the next.
#[derive(Debug, Default)]
pub struct Shadow {
    /// Reported, and not gone since.
    standing: BTreeSet<Line>,
    /// Seen for the first time at the last comparison.
    fresh: BTreeSet<Line>,
}

/// What one comparison has found.
#[derive(Debug)]
pub struct Look {
    pub appeared: Vec<Line>,
    pub vanished: Vec<Line>,
    pub report: Report,
}

impl Shadow {
    /// Reads kube-proxy's rules and compares them with the plan. Changes reach both sides at different times, so a
    /// difference counts only once two comparisons in a row have it.
    pub fn look(&mut self, plan: &Plan) -> Result<Look, ReadError> {
        Ok(self.take(Report::from(&compare(plan, &read_peer()?))))
    }

    /// How many differences are reported at present.
    pub fn count(&self) -> usize {
        self.standing.len()
    }

    fn take(&mut self, report: Report) -> Look {
        let now: BTreeSet<Line> = report.unexpected.iter().cloned().collect();
        let appeared: Vec<Line> = now.intersection(&self.fresh).cloned().collect();
        let vanished: Vec<Line> = self.standing.difference(&now).cloned().collect();
        self.standing.retain(|line| now.contains(line));
        self.standing.extend(appeared.iter().cloned());
        self.fresh = now.difference(&self.standing).cloned().collect();
        Look { appeared, vanished, report }
    }
}

impl Look {
    /// One line of the log for each difference that came or went.
    pub fn log(&self) {
        for line in &self.appeared {
            tracing::warn!("kube-proxy differs: {line}");
        }
        for line in &self.vanished {
            tracing::info!(
                "kube-proxy does not differ any more: {}: {} -> {}",
                line.service,
                line.from,
                line.destination
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(services: &[&str]) -> Report {
        let line = |service: &&str| Line { service: (*service).to_owned(), ..Line::default() };
        Report { unexpected: services.iter().map(line).collect(), ..Report::default() }
    }

    fn names(lines: &[Line]) -> Vec<&str> {
        lines.iter().map(|line| line.service.as_str()).collect()
    }

    #[test]
    fn a_difference_is_reported_when_it_stays_and_when_it_goes() {
        let mut shadow = Shadow::default();
        assert_eq!(names(&shadow.take(report(&["a"])).appeared), Vec::<&str>::new(), "it may be on its way");
        assert_eq!(names(&shadow.take(report(&["a", "b"])).appeared), ["a"]);
        let look = shadow.take(report(&["a"]));
        assert_eq!((names(&look.appeared), names(&look.vanished)), (vec![], vec![]), "a stands, b never did");
        assert_eq!(shadow.count(), 1);
        assert_eq!(names(&shadow.take(report(&[])).vanished), ["a"]);
        assert_eq!(shadow.count(), 0);
    }
}
