//! What happens to a packet, from all the ends that a walk can have.

use portolan_plan::{Candidate, Fate, Reason, Refusal, Step, Trace};

use crate::walk::{End, Ending, Met, Outcome};

/// `reason` gives the plan's reason for a rule of ours that refuses, if there is one.
pub(crate) fn trace(outcome: &Outcome, reason: impl Fn(&Met) -> Option<Reason>, step: impl Fn(&Met) -> Step) -> Trace {
    let decisive = outcome.endings.iter().min_by_key(|ending| order(ending));
    let mut steps: Vec<Step> = decisive.iter().flat_map(|ending| &ending.path).map(step).collect();
    let fate = decisive.map_or(Fate::Pass, |ending| fate(outcome, ending, reason));
    if let (Fate::Stopped { .. } | Fate::Unknown { .. }, Some(met)) =
        (&fate, decisive.and_then(|it| it.stopped_by.as_ref()))
        && steps.last().is_none_or(|last| last.because != *met.content)
    {
        steps.push(Step::new(&*met.place, &*met.content));
    }
    Trace { steps, fate, service: None, refused_by: None, notes: outcome.notes.iter().cloned().collect() }
}

/// Of several ends, the one that needs attention decides.
fn order(ending: &Ending) -> u8 {
    match ending.end {
        End::Unknown => 0,
        End::Drop | End::Reject => 1,
        End::Forward(_) | End::Pass => 2,
    }
}

fn fate(outcome: &Outcome, decisive: &Ending, reason: impl Fn(&Met) -> Option<Reason>) -> Fate {
    let rule = decisive.stopped_by.as_ref();
    let known = rule.filter(|_| !decisive.is_foreign).and_then(reason);
    match (decisive.end, known) {
        (End::Unknown, _) => Fate::Unknown { because: words(rule) },
        (End::Drop, Some(reason)) => Fate::Refuse(Refusal::Drop(reason)),
        (End::Reject, Some(reason)) => Fate::Refuse(Refusal::Reject(reason)),
        (End::Drop | End::Reject, None) => Fate::Stopped { by: words(rule) + &only_for(outcome, decisive) },
        (End::Pass, _) => Fate::Pass,
        (End::Forward(_), _) => Fate::Forward(candidates(outcome)),
    }
}

fn words(rule: Option<&Met>) -> String {
    rule.map_or_else(|| "an unnamed rule".to_owned(), ToString::to_string)
}

/// Names the endpoint where other endpoints can be reached.
fn only_for(outcome: &Outcome, stopped: &Ending) -> String {
    let is_forwarded = outcome.endings.iter().any(|ending| matches!(ending.end, End::Forward(_)));
    if is_forwarded { format!(" (on the path to {})", stopped.destination) } else { String::new() }
}

fn candidates(outcome: &Outcome) -> Vec<Candidate> {
    let candidate = |ending: &Ending| match ending.end {
        End::Forward(endpoint) => Some(Candidate { endpoint, masquerade: ending.masquerade }),
        _ => None,
    };
    let mut candidates: Vec<Candidate> = outcome.endings.iter().filter_map(candidate).collect();
    candidates.sort_unstable();
    candidates
}
