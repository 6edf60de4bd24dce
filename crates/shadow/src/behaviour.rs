//! What happens to a new connection, as its two ends see it.

use std::fmt;
use std::net::SocketAddr;

use portolan_dataplane::walk::{End, Ending};
use portolan_plan::{Fate, Refusal};

/// All that may happen, each with its likelihood.
#[derive(Clone, Debug, Default)]
pub struct Behaviour {
    /// In the order of their ends.
    pub choices: Vec<Choice>,
    /// How long a client is remembered, in seconds.
    pub affinity: Option<u32>,
    /// A rule that could not be run.
    pub not_understood: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub end: End,
    /// Whether the endpoint sees an address of the node as the source.
    pub masquerade: bool,
    /// From 0 to 1.
    pub share: f64,
}

impl From<&Ending> for Choice {
    fn from(ending: &Ending) -> Self {
        Self { end: ending.end, masquerade: ending.masquerade, share: ending.share }
    }
}

/// Likelihoods in iptables' rules are written with ten digits.
const SAME_SHARE: f64 = 0.001;

impl Behaviour {
    pub(crate) fn new(choices: impl IntoIterator<Item = Choice>, affinity: Option<u32>) -> Self {
        let mut merged: Vec<Choice> = Vec::new();
        for choice in choices {
            let known = merged.iter_mut().find(|it| (it.end, it.masquerade) == (choice.end, choice.masquerade));
            match known {
                Some(known) => known.share += choice.share,
                None => merged.push(choice),
            }
        }
        merged.sort_by_key(|choice| (choice.end, choice.masquerade));
        Self { choices: merged, affinity, not_understood: None }
    }

    pub(crate) fn planned(fate: &Fate, affinity: Option<u32>) -> Self {
        let sole = |end| vec![Choice { end, masquerade: false, share: 1.0 }];
        let choices = match fate {
            Fate::Pass => sole(End::Pass),
            Fate::Stopped { .. } => sole(End::Drop),
            Fate::Unknown { .. } => sole(End::Unknown),
            Fate::Refuse(Refusal::Reject(_)) => sole(End::Reject),
            Fate::Refuse(Refusal::Drop(_)) => sole(End::Drop),
            Fate::Forward(candidates) => {
                let share = 1.0 / candidates.len().max(1) as f64;
                let choice = |it: &portolan_plan::Candidate| Choice {
                    end: End::Forward(it.endpoint),
                    masquerade: it.masquerade,
                    share,
                };
                candidates.iter().map(choice).collect()
            }
        };
        Self::new(choices, affinity)
    }

    /// Session affinity makes no difference where there is only one endpoint. What is not understood is like nothing.
    pub fn is_like(&self, other: &Self) -> bool {
        let alike = |one: &Choice, two: &Choice| {
            (one.end, one.masquerade) == (two.end, two.masquerade) && (one.share - two.share).abs() < SAME_SHARE
        };
        let is_understood = |it: &Choice| it.end != End::Unknown;
        self.choices.iter().chain(&other.choices).all(is_understood)
            && self.choices.len() == other.choices.len()
            && self.choices.iter().zip(&other.choices).all(|(one, two)| alike(one, two))
            && (self.choices.len() < 2 || self.affinity == other.affinity)
    }

    /// The only thing that can happen, if it is one.
    pub(crate) fn sole_end(&self) -> Option<End> {
        let first = self.choices.first()?.end;
        self.choices.iter().all(|choice| choice.end == first).then_some(first)
    }

    pub(crate) fn endpoints(&self) -> Vec<SocketAddr> {
        let endpoint = |choice: &Choice| match choice.end {
            End::Forward(endpoint) => Some(endpoint),
            _ => None,
        };
        let mut endpoints: Vec<SocketAddr> = self.choices.iter().filter_map(endpoint).collect();
        endpoints.dedup();
        endpoints
    }
}

impl fmt::Display for Behaviour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let even = 1.0 / self.choices.len().max(1) as f64;
        for (index, choice) in self.choices.iter().enumerate() {
            formatter.write_str(if index > 0 { ", " } else { "" })?;
            write!(formatter, "{}", choice.end)?;
            formatter.write_str(if choice.masquerade { " masqueraded" } else { "" })?;
            if (choice.share - even).abs() >= SAME_SHARE {
                write!(formatter, " ({:.1} %)", choice.share * 100.0)?;
            }
        }
        self.not_understood.iter().try_for_each(|rule| write!(formatter, " ({rule})"))?;
        match self.affinity {
            Some(seconds) if self.choices.len() > 1 => write!(formatter, ", the same one for {seconds} s"),
            _ => Ok(()),
        }
    }
}
