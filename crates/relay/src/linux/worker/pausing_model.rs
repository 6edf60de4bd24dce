//! Every interleaving of clients, ends of connections, shortages and turns, for three listeners of two Services.
//!
//! The functions under test are those of the worker, over queues in memory in place of sockets. All states that can be
//! reached from the start are visited, each once.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use super::super::admission::{Admission, Seat};
use super::super::slots::Slots;
use super::*;

const LISTENERS: usize = 3;
/// The Service of each listener.
const SERVICES: [&str; LISTENERS] = ["a", "a", "b"];
const LIMIT: usize = 4;
/// Clients that wait in one queue at most.
const QUEUE: usize = 2;

/// What can happen between two turns of the worker.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive(usize),
    /// A connection of that Service ends.
    End(&'static str),
    /// Another part of the process takes the last descriptor, or returns it.
    Shortage(bool),
    /// The retry timer fires.
    Retry,
    /// Epoll reports the listeners that are in its set and have clients; then the turn ends.
    Turn,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    queues: [usize; LISTENERS],
    is_watched: [bool; LISTENERS],
    /// Connections by Service: "a", then "b".
    held: [usize; 2],
    has_room: bool,
    is_short: bool,
    is_retry_set: bool,
    paused: Paused,
}

struct World {
    state: State,
    keys: Vec<Key>,
    admission: Admission,
    seats: Vec<(usize, Seat)>,
    /// Attempts to accept since the last step.
    attempts: usize,
}

fn service(listener: usize) -> usize {
    usize::from(SERVICES[listener] == "b")
}

impl World {
    fn in_state(state: &State) -> Self {
        let mut slots = Slots::new();
        let keys = (0..LISTENERS).map(|listener| slots.insert(listener)).collect();
        let mut world =
            World { state: state.clone(), keys, admission: Admission::new(LIMIT), seats: Vec::new(), attempts: 0 };
        for (service, count) in state.held.into_iter().enumerate() {
            (0..count).for_each(|_| world.seat(service));
        }
        world.admission.has_room = state.has_room;
        world
    }

    /// Every connection has a client of its own: the shares of clients play no part in pausing.
    fn seat(&mut self, service: usize) {
        let client: IpAddr = [10, 0, 0, self.seats.len() as u8].into();
        let seat = self.admission.take(&Arc::from(["a", "b"][service]), client, &Arc::default());
        self.seats.push((service, seat));
    }

    fn index(&self, key: Key) -> usize {
        self.keys.iter().position(|it| *it == key).unwrap()
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Arrive(listener) => self.state.queues[listener] += 1,
            Step::Shortage(is_short) => self.state.is_short = is_short,
            Step::End(name) => {
                let service = usize::from(name == "b");
                let index = self.seats.iter().position(|(it, _)| *it == service).unwrap();
                let (_, seat) = self.seats.remove(index);
                self.admission.give_back(&seat);
                self.resume_paused();
            }
            Step::Retry => {
                self.state.is_retry_set = false;
                self.admission.has_room = true;
                self.resume_paused();
            }
            Step::Turn => {
                let ready = (0..LISTENERS).filter(|it| self.is_ready(*it)).collect::<Vec<_>>();
                ready.into_iter().for_each(|it| self.on_clients(self.keys[it]));
                self.resume_paused();
            }
        }
        self.state.has_room = self.admission.has_room;
        self.state.held = [0, 1].map(|service| self.seats.iter().filter(|(it, _)| *it == service).count());
    }

    fn is_ready(&self, listener: usize) -> bool {
        self.state.is_watched[listener] && self.state.queues[listener] > 0
    }

    fn check(&mut self, step: Step) {
        let held = self.seats.len();
        assert!(held <= LIMIT, "{held} connections after {step:?}");
        assert!(self.attempts <= LIMIT + 2 * LISTENERS, "{} attempts after {step:?}", self.attempts);
        for listener in 0..LISTENERS {
            let key = self.keys[listener];
            let pauses = self.state.paused.0.iter().filter(|it| **it == key).count();
            let watches = usize::from(self.state.is_watched[listener]);
            assert_eq!(pauses + watches, 1, "a listener is paused or watched, after {step:?}");
            let waits = pauses == 1 && self.state.queues[listener] > 0;
            let is_stuck = waits && self.has_room_for(key) && !self.state.has_room && !self.state.is_retry_set;
            assert!(!is_stuck, "a client of listener {listener} waits although there is room, after {step:?}");
        }
    }
}

impl Doorway for World {
    fn paused(&mut self) -> &mut Paused {
        &mut self.state.paused
    }

    fn has_room_for(&self, listener: Key) -> bool {
        self.admission.allows_service(SERVICES[self.index(listener)])
    }

    fn is_full(&self) -> bool {
        self.admission.is_full()
    }

    fn take_has_room(&mut self) -> bool {
        std::mem::take(&mut self.admission.has_room)
    }

    fn accept(&mut self, listener: Key) -> Accepted {
        self.attempts += 1;
        let index = self.index(listener);
        match self.state.queues[index] {
            // The kernel allocates the descriptor before it looks at the queue.
            _ if self.state.is_short => Accepted::Exhausted,
            0 => Accepted::WouldBlock,
            _ => {
                self.state.queues[index] -= 1;
                self.seat(service(index));
                Accepted::Client
            }
        }
    }

    fn watch(&mut self, listener: Key) -> bool {
        let index = self.index(listener);
        self.state.is_watched[index] = !self.state.is_short;
        !self.state.is_short
    }

    fn unwatch(&mut self, listener: Key) {
        let index = self.index(listener);
        self.state.is_watched[index] = false;
    }

    fn note_limit(&mut self, _: Key) {}

    fn retry_later(&mut self) {
        self.state.is_retry_set = true;
    }
}

fn steps(state: &State) -> Vec<Step> {
    let mut steps = vec![Step::Turn, Step::Shortage(!state.is_short)];
    steps.extend((0..LISTENERS).filter(|it| state.queues[*it] < QUEUE).map(Step::Arrive));
    steps.extend(["a", "b"].into_iter().zip(state.held).filter(|(_, held)| *held > 0).map(|(name, _)| Step::End(name)));
    steps.extend(state.is_retry_set.then_some(Step::Retry));
    steps
}

#[test]
fn no_client_waits_while_there_is_room() {
    let start = State {
        queues: [0; LISTENERS],
        is_watched: [true; LISTENERS],
        held: [0; 2],
        has_room: false,
        is_short: false,
        is_retry_set: false,
        paused: Paused::default(),
    };
    let (mut seen, mut open) = (BTreeSet::from([start.clone()]), vec![start]);
    while let Some(state) = open.pop() {
        for step in steps(&state) {
            let mut world = World::in_state(&state);
            world.run(step);
            world.check(step);
            if seen.insert(world.state.clone()) {
                open.push(world.state);
            }
        }
    }
    assert!(seen.len() > 1000, "{} states", seen.len());
    assert!(seen.iter().any(|state| state.paused.0.len() == LISTENERS), "all listeners were paused");
}
