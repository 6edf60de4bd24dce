//! A kernel in memory that fails like a real one: a call fails now and then, and a failed change stops after any part of
//! it, from nothing to all.

use portolan_plan::ServicePlan;

use crate::{Change, Dataplane, Error, Objects, Observe, Program};

pub struct FakeKernel<D: Dataplane> {
    pub objects: Objects<D>,
    /// One call in this many fails; 0 means never.
    pub fails_one_in: u64,
    pub failures: u64,
    seed: u64,
}

impl<D: Dataplane> FakeKernel<D> {
    pub fn new() -> Self {
        Self::failing(0, 1)
    }

    pub fn failing(fails_one_in: u64, seed: u64) -> Self {
        Self { objects: Objects::new(), fails_one_in, failures: 0, seed: seed | 1 }
    }

    /// A small xorshift generator: the same seed fails at the same calls.
    fn random(&mut self) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed
    }

    fn fails(&mut self) -> bool {
        let fails = self.fails_one_in > 0 && self.random().is_multiple_of(self.fails_one_in);
        self.failures += u64::from(fails);
        fails
    }
}

impl<D: Dataplane> Default for FakeKernel<D> {
    fn default() -> Self {
        Self::new()
    }
}

impl<D: Dataplane> Observe<D> for FakeKernel<D> {
    fn read(&mut self) -> Result<Objects<D>, Error> {
        if self.fails() {
            return Err(Error::Fake("the read was interrupted"));
        }
        Ok(self.objects.clone())
    }

    fn is_undisturbed(&mut self) -> Result<bool, Error> {
        if self.fails() { Err(Error::Fake("the check was interrupted")) } else { Ok(false) }
    }
}

impl<D: Dataplane> Program<D> for FakeKernel<D> {
    fn apply(&mut self, change: &Change<D>, _: bool) -> Result<(), Error> {
        for (key, value) in &change.removed {
            if self.objects.0.get(key) != Some(value) {
                return Err(Error::Fake("the change removes an object that does not exist"));
            }
        }
        let steps: Vec<Step<'_, D>> = steps(change).collect();
        let is_refused = self.fails();
        let reached = if is_refused { self.random() as usize % (steps.len() + 1) } else { steps.len() };
        for (key, value) in &steps[..reached] {
            match value {
                Some(value) => _ = self.objects.0.insert((*key).clone(), (*value).clone()),
                None => _ = self.objects.0.remove(key),
            }
        }
        if is_refused { Err(Error::Fake("the change stopped midway")) } else { Ok(()) }
    }

    fn forget_clients(&mut self, _: &ServicePlan) -> Result<usize, Error> {
        if self.fails() { Err(Error::Fake("forgetting clients failed")) } else { Ok(0) }
    }
}

/// One object written, or deleted.
type Step<'a, D> = (&'a <D as Dataplane>::Key, Option<&'a <D as Dataplane>::Value>);

/// Additions come before removals, as in a kernel without transactions.
fn steps<D: Dataplane>(change: &Change<D>) -> impl Iterator<Item = Step<'_, D>> {
    let added = change.added.iter().map(|(key, value)| (key, Some(value)));
    let removed = change.removed.keys().filter(|key| !change.added.contains_key(key)).map(|key| (key, None));
    added.chain(removed)
}
