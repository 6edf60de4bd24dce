//! Quarantine of one endpoint: it gets no new connections for a growing while, then a few to see whether it answers.

use std::time::Duration;

use portolan_model::Observation;

/// The first quarantine; each further one doubles it.
const FIRST: Duration = Duration::from_secs(20);
const LONGEST: Duration = Duration::from_secs(300);
/// The weight in a trial begins with a hundredth, and doubles as often as this.
const TRIAL_BEGINS: u16 = 10;
const TRIAL_DOUBLES: Duration = Duration::from_secs(2);
/// After this time without a quarantine the next one is as short as the first.
const FORGIVEN: Duration = Duration::from_secs(600);

/// What was seen of an endpoint since it entered its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Evidence {
    /// Whether it has answered a new connection.
    pub(crate) has_answered: bool,
    /// Connections of credible clients since its last answer that it has not answered in time, or refused.
    pub(crate) unanswered: usize,
    /// The number of those clients.
    pub(crate) clients: usize,
    /// Whether one of them is a pod or the node itself.
    pub(crate) is_from_inside: bool,
    /// Whether a connection waits that is too young to count.
    pub(crate) is_pending: bool,
}

/// Some packets get lost on the way.
const FEWEST_CONNECTIONS: usize = 3;
/// One client outside of the cluster must not be able to have endpoints quarantined.
const FEWEST_CLIENTS: usize = 3;

impl Evidence {
    fn is_convincing(self) -> bool {
        let are_enough = self.is_from_inside || self.clients >= FEWEST_CLIENTS;
        are_enough && self.unanswered >= FEWEST_CONNECTIONS
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Silence {
    state: State,
    /// How many quarantines there were, and when the last one ended.
    repeats: u32,
    since: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Answers,
    Quarantined {
        until: Duration,
    },
    /// It gets few connections, and none while one of them waits for its answer.
    Trial {
        waits: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Quarantined(Duration),
    Trial,
    Released,
}

impl Silence {
    /// When it entered its state: connections that began before say nothing about it.
    pub(crate) fn since(&self) -> Duration {
        self.since
    }

    pub(crate) fn is_quarantined(&self) -> bool {
        matches!(self.state, State::Quarantined { .. })
    }

    /// Whether it gets no new connections.
    pub(crate) fn is_left_out(&self) -> bool {
        matches!(self.state, State::Quarantined { .. } | State::Trial { waits: true })
    }

    pub(crate) fn note(&mut self, evidence: Evidence, now: Duration) -> Option<Change> {
        match self.state {
            State::Answers if evidence.is_convincing() => Some(self.quarantine(now)),
            State::Trial { .. } if evidence.has_answered => Some(self.release(now)),
            State::Trial { .. } if evidence.unanswered > 0 => Some(self.quarantine(now)),
            State::Trial { .. } if evidence.is_pending => {
                self.state = State::Trial { waits: true };
                None
            }
            _ => self.wait(now),
        }
    }

    /// Time alone.
    fn wait(&mut self, now: Duration) -> Option<Change> {
        match self.state {
            State::Quarantined { until } if now >= until => {
                (self.state, self.since) = (State::Trial { waits: false }, now);
                Some(Change::Trial)
            }
            State::Trial { .. } if self.warmth(now) == Observation::WHOLE => Some(self.release(now)),
            State::Trial { .. } => {
                self.state = State::Trial { waits: false };
                None
            }
            State::Answers | State::Quarantined { .. } => None,
        }
    }

    fn quarantine(&mut self, now: Duration) -> Change {
        if self.state == State::Answers && now.saturating_sub(self.since) > FORGIVEN {
            self.repeats = 0;
        }
        let time = (FIRST * 2_u32.saturating_pow(self.repeats.min(8))).min(LONGEST);
        self.repeats += 1;
        (self.state, self.since) = (State::Quarantined { until: now + time }, now);
        Change::Quarantined(time)
    }

    fn release(&mut self, now: Duration) -> Change {
        (self.state, self.since) = (State::Answers, now);
        Change::Released
    }

    /// In a trial.
    pub(crate) fn warmth(&self, now: Duration) -> u16 {
        if !matches!(self.state, State::Trial { .. }) {
            return Observation::WHOLE;
        }
        let doubled = now.saturating_sub(self.since).as_millis() / TRIAL_DOUBLES.as_millis();
        let share = u32::from(TRIAL_BEGINS) << doubled.min(16);
        share.min(u32::from(Observation::WHOLE)) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANGS: Evidence =
        Evidence { has_answered: false, unanswered: 3, clients: 1, is_from_inside: true, is_pending: false };
    const NOTHING: Evidence = Evidence { unanswered: 0, clients: 0, is_from_inside: false, ..HANGS };

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_lost_packet_is_not_enough() {
        let mut silence = Silence::default();
        assert_eq!(silence.note(Evidence { unanswered: 2, ..HANGS }, seconds(2)), None);
        assert_eq!(silence.note(HANGS, seconds(3)), Some(Change::Quarantined(seconds(20))));
    }

    #[test]
    fn one_client_outside_is_not_enough() {
        let outside = |clients| Evidence { clients, is_from_inside: false, unanswered: 1000, ..HANGS };
        assert_eq!(Silence::default().note(outside(2), seconds(1)), None);
        assert!(Silence::default().note(outside(3), seconds(1)).is_some());
    }

    #[test]
    fn quarantines_grow_while_the_endpoint_stays_silent() {
        let mut silence = Silence::default();
        let mut times = Vec::new();
        let mut now = seconds(1);
        for _ in 0..7 {
            silence.note(Evidence { unanswered: 3, ..HANGS }, now);
            let State::Quarantined { until } = silence.state else { panic!("{silence:?}") };
            times.push((until - now).as_secs());
            now = until;
            assert_eq!(silence.note(NOTHING, now), Some(Change::Trial));
            assert_eq!(silence.warmth(now), 10);
        }
        assert_eq!(times, [20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_trial_ends_with_the_first_answer() {
        let mut silence = Silence::default();
        silence.note(HANGS, seconds(0));
        silence.note(NOTHING, seconds(20));
        assert_eq!([20, 22, 24].map(|second| silence.warmth(seconds(second))), [10, 20, 40]);
        assert_eq!(silence.note(Evidence { has_answered: true, ..NOTHING }, seconds(24)), Some(Change::Released));
        assert_eq!(silence.warmth(seconds(24)), 1000);
    }

    #[test]
    fn a_trial_waits_for_the_first_answer() {
        let mut silence = Silence::default();
        silence.note(HANGS, seconds(0));
        silence.note(NOTHING, seconds(20));
        assert!(!silence.is_left_out());
        assert_eq!(silence.note(Evidence { is_pending: true, ..NOTHING }, seconds(21)), None);
        assert!(silence.is_left_out());
        let mut other = silence;
        assert_eq!(
            silence.note(Evidence { unanswered: 1, ..NOTHING }, seconds(22)),
            Some(Change::Quarantined(seconds(40)))
        );
        // The client has gone: the next one decides.
        assert_eq!((other.note(NOTHING, seconds(22)), other.is_left_out()), (None, false));
    }

    /// A Service without clients gets its endpoint back, too.
    #[test]
    fn a_trial_without_connections_ends() {
        let mut silence = Silence::default();
        silence.note(HANGS, seconds(0));
        silence.note(NOTHING, seconds(20));
        let mut now = seconds(20);
        while silence.note(NOTHING, now).is_none() {
            now += seconds(1);
        }
        assert_eq!((now, silence.state), (seconds(34), State::Answers));
    }
}
