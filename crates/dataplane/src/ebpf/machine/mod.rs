//! Runs a BPF program over map entries that are data: the very instructions that the kernel gets.
//!
//! The machine follows every random choice. A random number has no value until the program selects one of n by
//! `random * n >> 32`; then the run goes on n times, each with the same share. It is strict: an instruction, a helper or an
//! address that it does not know, and every other use of a random number, is an error, never a guess.

mod arithmetic;
mod helpers;
mod memory;
mod step;
#[cfg(test)]
mod tests;
mod value;

use portolan_kernel::bpf::{Code, Object};

use memory::Memory;
use step::Next;
use value::{Registers, Value};

/// Instructions of one run, in all its branches.
const MOST_STEPS: usize = 20_000_000;
/// Ways that one run can go.
const MOST_BRANCHES: usize = 65_536;

/// The instruction that cannot be run, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("instruction {instruction} of {program}: {reason}")]
pub struct Unsupported {
    pub program: String,
    pub instruction: usize,
    pub reason: String,
}

/// The entries of maps. Socket storage has the empty key.
pub trait Maps {
    fn lookup(&self, map: &str, key: &[u8]) -> Option<Vec<u8>>;
}

/// What a program sees of the machine that it runs on.
pub struct World<'a> {
    pub object: &'a Object,
    pub maps: &'a dyn Maps,
    /// The constants: [`Object::rodata_with`].
    pub rodata: &'a [u8],
    /// The network namespace of the socket.
    pub netns_cookie: u64,
    /// The cgroup of the task.
    pub cgroup: u64,
    /// Nanoseconds.
    pub now: u64,
}

/// One way that a run can go.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub returned: u64,
    /// What `bpf_set_retval` was called with last.
    pub retval: Option<i32>,
    /// The context at the end, with the translated address and port.
    pub context: Vec<u8>,
    /// Of all runs.
    pub share: f64,
    pub steps: Vec<Step>,
}

/// An access to a map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Found { map: String, key: Vec<u8>, value: Vec<u8> },
    Missing { map: String, key: Vec<u8> },
    Written { map: String, key: Vec<u8>, value: Vec<u8> },
}

/// Runs the program to all its ends. The context is `struct bpf_sock_addr`; its socket is filled in.
pub fn run(world: &World<'_>, program: &Code, context: &[u8]) -> Result<Vec<Outcome>, Unsupported> {
    let (mut forks, mut outcomes) = (Vec::new(), Vec::new());
    let mut steps_left = MOST_STEPS;
    let mut next = Some(Run::new(world, context));
    while let Some(mut run) = next {
        let end = run.until_branch(world, program, &mut steps_left);
        match end.map_err(|reason| run.unsupported(program, reason))? {
            Next::Choice(register, count) => forks.push(Fork { run, register, choice: 0, count }),
            _ => outcomes.push(run.outcome().map_err(|reason| run.unsupported(program, reason))?),
        }
        next = next_branch(&mut forks);
        if let Some(run) = next.as_ref().filter(|_| outcomes.len() >= MOST_BRANCHES) {
            return Err(run.unsupported(program, format!("more than {MOST_BRANCHES} ways")));
        }
    }
    Ok(outcomes)
}

/// A random choice, and how far it is followed.
struct Fork {
    run: Run,
    register: u8,
    choice: u32,
    count: u32,
}

fn next_branch(forks: &mut Vec<Fork>) -> Option<Run> {
    let fork = forks.last_mut()?;
    let branch = fork.run.choose(fork.register, fork.choice, fork.count);
    fork.choice += 1;
    if fork.choice == fork.count {
        forks.pop();
    }
    Some(branch)
}

/// The state between two instructions.
#[derive(Clone)]
struct Run {
    registers: Registers,
    memory: Memory,
    /// The index of the next instruction.
    position: usize,
    retval: Option<i32>,
    share: f64,
    steps: Vec<Step>,
}

impl Run {
    fn new(world: &World<'_>, context: &[u8]) -> Self {
        let memory = Memory::new(context, world.rodata);
        Self { registers: Registers::new(), memory, position: 0, retval: None, share: 1.0, steps: Vec::new() }
    }

    fn until_branch(&mut self, world: &World<'_>, program: &Code, steps_left: &mut usize) -> Result<Next, String> {
        loop {
            *steps_left = steps_left.checked_sub(1).ok_or_else(|| format!("more than {MOST_STEPS} steps"))?;
            match self.step(world, program)? {
                Next::Continue => {}
                next => return Ok(next),
            }
        }
    }

    fn choose(&self, register: u8, choice: u32, count: u32) -> Self {
        let mut branch = self.clone();
        branch.registers.choose(register, choice);
        branch.share /= f64::from(count);
        branch
    }

    fn outcome(&self) -> Result<Outcome, String> {
        let Value::Known(returned) = self.registers.get(0)? else {
            return Err("it returns a random number".to_owned());
        };
        let context = self.memory.context().to_vec();
        Ok(Outcome { returned, retval: self.retval, context, share: self.share, steps: self.steps.clone() })
    }

    fn unsupported(&self, program: &Code, reason: String) -> Unsupported {
        Unsupported { program: program.name.clone(), instruction: self.position, reason }
    }
}
