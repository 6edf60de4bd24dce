//! Runs a program for each socket of a network namespace.

use std::io::{self, Read};

use super::call::{Arguments, Command, failed};
use super::program::Program;
use crate::error::Result;
use crate::system::fd::{AsFd, OwnedFd};
use crate::system::files;

pub struct SocketIterator {
    link: OwnedFd,
    name: String,
}

impl SocketIterator {
    pub fn attach(program: &Program) -> Result<Self> {
        let attempted = || format!("attaching the BPF program {} as an iterator", program.name());
        let arguments = Arguments::default().descriptor(0, program.as_fd());
        let mut arguments = arguments.number(8, program.hook().attach_type());
        let link = arguments.open(Command::LinkCreate).map_err(|error| failed(attempted(), error))?;
        Ok(Self { link, name: program.name().to_owned() })
    }

    /// Runs the program over the sockets of the calling thread's network namespace, and returns what it wrote.
    pub fn run(&self) -> Result<Vec<u8>> {
        let attempted = || format!("running the BPF program {} over sockets", self.name);
        self.read().map_err(|error| failed(attempted(), error))
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        let opened = Arguments::default().descriptor(0, self.link.as_fd()).open(Command::IteratorCreate)?;
        let mut output = Vec::new();
        files::of_descriptor(opened)?.read_to_end(&mut output)?;
        Ok(output)
    }
}
