//! Many entries of a BPF map in few system calls. A batch is not atomic: readers see it entry by entry.

use crate::system::fd::AsFd;
use crate::system::libc;
use std::io::{self, ErrorKind::InvalidInput};

use super::call::{Arguments, Command, failed, impossible};
use super::map::Map;
use super::patience::Patience;
use crate::error::Result;

/// How many entries one system call reads.
const STEP: usize = 16_384;

/// The offsets of `union bpf_attr` for batches.
const COUNT: usize = 32;
const DESCRIPTOR: usize = 36;

/// Entries as the system calls have them: all keys one after the other, and all values.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Entries {
    key_size: usize,
    value_size: usize,
    keys: Vec<u8>,
    values: Vec<u8>,
}

impl Entries {
    pub fn len(&self) -> usize {
        self.keys.len() / self.key_size.max(1)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys.chunks_exact(self.key_size.max(1)).zip(self.values.chunks_exact(self.value_size.max(1)))
    }
}

impl Map {
    /// An empty list with the sizes of this map.
    fn no_entries(&self) -> Entries {
        let (key_size, value_size) = (self.info().key_size as usize, self.value_length());
        Entries { key_size, value_size, ..Entries::default() }
    }

    /// All entries. What is written at the same time may be missing or old.
    pub fn entries(&self) -> Result<Entries> {
        let mut entries = self.no_entries();
        let (mut position, mut step) = (None, STEP);
        loop {
            let mut next = [0; 8];
            match self.read_batch(position.as_ref(), &mut next, step, &mut entries)? {
                Batch::More => position = Some(next),
                Batch::Last => return Ok(entries),
                // One bucket of the hash table has more entries.
                Batch::TooSmall => step *= 2,
            }
        }
    }

    /// Adds the entries, or replaces their values. An error leaves the first ones written.
    pub fn update_batch<'a>(&self, entries: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> Result<()> {
        let mut all = self.no_entries();
        for (key, value) in entries {
            self.check_lengths(key.len(), value.len())?;
            all.keys.extend(key);
            all.values.extend(value);
        }
        let (total, mut written, mut patience) = (all.len(), 0, Patience::default());
        while written < total {
            let (done, outcome) = self.write_batch(&all, written)?;
            written += done;
            match outcome {
                Ok(()) => break,
                Err(error) if patience.allows(&error, done > 0) => {}
                Err(error) => return Err(failed(self.attempted(&format!("writing {total} entries of")), error)),
            }
        }
        Ok(())
    }

    /// Writes the entries behind the first ones, and returns how many were written.
    fn write_batch(&self, all: &Entries, written: usize) -> Result<(usize, io::Result<()>)> {
        let keys = all.keys.get(written * all.key_size..).unwrap_or_default();
        let values = all.values.get(written * all.value_size..).unwrap_or_default();
        let arguments = Arguments::default().input(16, keys).input(24, values);
        let count = self.count(all.len() - written)?;
        let mut arguments = arguments.number(COUNT, count).descriptor(DESCRIPTOR, self.as_fd());
        let outcome = arguments.call(Command::MapUpdateBatch).map(drop);
        Ok((arguments.read(COUNT).min(count) as usize, outcome))
    }

    /// Deletes the entries with these keys, and returns how many there were.
    pub fn delete_batch<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> Result<usize> {
        let size = self.info().key_size as usize;
        let mut all = Vec::new();
        for key in keys {
            self.check_lengths(key.len(), self.value_length())?;
            all.extend(key);
        }
        let (mut rest, mut deleted) = (&all[..], 0);
        while !rest.is_empty() {
            let arguments = Arguments::default().input(16, rest).number(COUNT, self.count(rest.len() / size)?);
            let mut arguments = arguments.descriptor(DESCRIPTOR, self.as_fd());
            let outcome = arguments.call(Command::MapDeleteBatch);
            let done = arguments.read(COUNT) as usize;
            deleted += done;
            match outcome {
                Ok(_) => break,
                // The first key that does not exist ends a batch.
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    rest = rest.get((done + 1) * size..).unwrap_or_default();
                }
                Err(error) => return Err(failed(self.attempted("deleting entries of"), error)),
            }
        }
        Ok(deleted)
    }

    fn read_batch(
        &self,
        position: Option<&[u8; 8]>,
        next: &mut [u8; 8],
        step: usize,
        entries: &mut Entries,
    ) -> Result<Batch> {
        let mut keys = vec![0; step * entries.key_size];
        let mut values = vec![0; step * entries.value_size];
        let arguments = Arguments::default().output(8, next).output(16, &mut keys).output(24, &mut values);
        let arguments = arguments.number(COUNT, self.count(step)?).descriptor(DESCRIPTOR, self.as_fd());
        let mut arguments = match position {
            Some(position) => arguments.input(0, position),
            None => arguments,
        };
        let outcome = arguments.call(Command::MapLookupBatch);
        let count = arguments.read(COUNT) as usize;
        let batch = match outcome.as_ref().map_err(io::Error::raw_os_error) {
            Ok(_) => Batch::More,
            Err(Some(libc::ENOENT)) => Batch::Last,
            Err(Some(libc::ENOSPC)) => return Ok(Batch::TooSmall),
            Err(_) => return outcome.map(|_| Batch::Last).map_err(|it| failed(self.attempted("reading"), it)),
        };
        entries.keys.extend(keys.iter().take(count * entries.key_size));
        entries.values.extend(values.iter().take(count * entries.value_size));
        Ok(batch)
    }

    fn count(&self, count: usize) -> Result<u32> {
        u32::try_from(count).map_err(|_| impossible(self.attempted("using"), InvalidInput, "too many entries"))
    }
}

enum Batch {
    /// There are entries behind these.
    More,
    Last,
    TooSmall,
}
