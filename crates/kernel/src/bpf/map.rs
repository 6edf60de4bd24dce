//! BPF maps: creation, pins, single entries.

use crate::system::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use crate::system::libc;
use std::fs;
use std::io::ErrorKind::InvalidInput;
use std::path::Path;

use super::btf;
use super::call::{self, Arguments, Command, failed, impossible, number_at};
use super::object::MapDefinition;
use super::patience::Patience;
use crate::error::{Error, Result};

/// The kinds of maps, by their number in the kernel's interface.
pub mod kind {
    pub const HASH: u32 = 1;
    pub const ARRAY: u32 = 2;
    pub const PERCPU_HASH: u32 = 5;
    pub const PERCPU_ARRAY: u32 = 6;
    pub const LRU_HASH: u32 = 9;
    pub const LRU_PERCPU_HASH: u32 = 10;
    pub const SK_STORAGE: u32 = 24;
}

/// `BPF_F_RDONLY_PROG`: programs cannot write.
const READ_ONLY_FOR_PROGRAMS: u32 = 1 << 7;

const CPUS: &str = "/sys/devices/system/cpu/possible";

/// An open map.
pub struct Map {
    descriptor: OwnedFd,
    info: MapInfo,
    /// The bytes of a value in system calls: those of all CPUs, where each has its own.
    value_length: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapInfo {
    pub id: u32,
    pub kind: u32,
    pub key_size: u32,
    pub value_size: u32,
    pub max_entries: u32,
    pub flags: u32,
    /// The first 15 bytes of the name.
    pub name: String,
}

impl MapInfo {
    /// Whether entries have the layout of the definition, and there is room for as many.
    pub fn is_like(&self, definition: &MapDefinition) -> bool {
        let sizes = |key: u32, value: u32| (key, value);
        self.kind == definition.kind
            && sizes(self.key_size, self.value_size) == sizes(definition.key_size, definition.value_size)
            && self.max_entries == definition.max_entries
            && self.flags == definition.flags
    }
}

impl Map {
    pub fn create(definition: &MapDefinition) -> Result<Self> {
        let attempted = || format!("creating the BPF map {}", definition.name);
        let arguments = Arguments::default()
            .number(0, definition.kind)
            .number(4, definition.key_size)
            .number(8, definition.value_size)
            .number(12, definition.max_entries)
            .number(16, definition.flags)
            .name(28, &definition.name);
        let descriptor = if definition.kind == kind::SK_STORAGE {
            // The kernel demands types for these maps.
            let types = btf::storage_types(definition.value_size)?;
            let mut typed = arguments.descriptor(48, types.as_fd()).number(52, btf::KEY).number(56, btf::VALUE);
            typed.open(Command::MapCreate)
        } else {
            let mut arguments = arguments;
            arguments.open(Command::MapCreate)
        };
        Self::of(descriptor.map_err(|error| failed(attempted(), error))?)
    }

    /// A map with one value that neither programs nor system calls can change, so that the verifier knows its content.
    pub fn frozen(name: &str, value: &[u8]) -> Result<Self> {
        let attempted = || format!("writing the BPF map {name}");
        let value_size =
            u32::try_from(value.len()).map_err(|_| impossible(attempted(), InvalidInput, "too many bytes"))?;
        let map = Self::create(&MapDefinition {
            name: name.to_owned(),
            kind: kind::ARRAY,
            key_size: 4,
            value_size,
            max_entries: 1,
            flags: READ_ONLY_FOR_PROGRAMS,
        })?;
        map.update(&0u32.to_ne_bytes(), value)?;
        let mut arguments = Arguments::default().descriptor(0, map.as_fd());
        arguments.call(Command::MapFreeze).map_err(|error| failed(attempted(), error))?;
        Ok(map)
    }

    /// Opens a pinned map; `None` if there is none.
    pub fn open(path: &Path) -> Result<Option<Self>> {
        match call::open_pinned(path) {
            Ok(descriptor) => Self::of(descriptor).map(Some),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed(format!("opening the BPF map {}", path.display()), error)),
        }
    }

    pub fn pin(&self, path: &Path) -> Result<()> {
        let attempted = || format!("pinning the BPF map {} at {}", self.info.name, path.display());
        call::pin(self.as_fd(), path).map_err(|error| failed(attempted(), error))
    }

    pub fn info(&self) -> &MapInfo {
        &self.info
    }

    /// The bytes of a value in [`Map::lookup`] and the others: for each CPU, rounded up to eight, where a map has values by
    /// CPU.
    pub fn value_length(&self) -> usize {
        self.value_length
    }

    /// `None` if there is no such entry.
    pub fn lookup(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_lengths(key.len(), self.value_length)?;
        let mut value = vec![0; self.value_length];
        let mut arguments = Arguments::default().descriptor(0, self.as_fd()).input(8, key).output(16, &mut value);
        match arguments.call(Command::MapLookup) {
            Ok(_) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed(self.attempted("reading an entry of"), error)),
        }
    }

    /// Adds the entry, or replaces its value.
    pub fn update(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_lengths(key.len(), value.len())?;
        let mut patience = Patience::default();
        loop {
            let mut arguments = Arguments::default().descriptor(0, self.as_fd()).input(8, key).input(16, value);
            match arguments.call(Command::MapUpdate) {
                Ok(_) => return Ok(()),
                Err(error) if patience.allows(&error, false) => {}
                Err(error) => return Err(failed(self.attempted("writing an entry of"), error)),
            }
        }
    }

    /// False if there is no such entry.
    pub fn delete(&self, key: &[u8]) -> Result<bool> {
        self.check_lengths(key.len(), self.value_length)?;
        match Arguments::default().descriptor(0, self.as_fd()).input(8, key).call(Command::MapDelete) {
            Ok(_) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
            Err(error) => Err(failed(self.attempted("deleting an entry of"), error)),
        }
    }

    /// The bytes of kernel memory that the map takes.
    pub fn memory(&self) -> Result<u64> {
        let path = format!("/proc/self/fdinfo/{}", self.descriptor.as_raw_fd());
        let text = fs::read_to_string(&path).map_err(|error| Error::io(format!("reading {path}"), error))?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:")?.trim().parse().ok());
        bytes.ok_or_else(|| Error::malformed(format!("reading {path}"), "it has no number for memlock"))
    }

    pub(super) fn attempted(&self, what: &str) -> String {
        format!("{what} the BPF map {}", self.info.name)
    }

    pub(super) fn check_lengths(&self, key: usize, value: usize) -> Result<()> {
        if key == self.info.key_size as usize && value == self.value_length {
            return Ok(());
        }
        let (keys, values) = (self.info.key_size, self.value_length);
        let reason = format!("its keys have {keys} bytes and its values {values}, not {key} and {value}");
        Err(impossible(self.attempted("using"), InvalidInput, reason))
    }

    fn of(descriptor: OwnedFd) -> Result<Self> {
        let attempted = "reading the layout of a BPF map";
        let info = read_info(descriptor.as_fd()).map_err(|error| failed(attempted, error))?;
        let value = info.value_size as usize;
        let is_by_cpu = matches!(info.kind, kind::PERCPU_HASH | kind::PERCPU_ARRAY | kind::LRU_PERCPU_HASH);
        let value_length = if is_by_cpu { value.next_multiple_of(8) * possible_cpus()? } else { value };
        Ok(Self { descriptor, info, value_length })
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// `struct bpf_map_info`.
fn read_info(descriptor: BorrowedFd<'_>) -> std::io::Result<MapInfo> {
    let bytes: [u8; 88] = call::information(descriptor)?;
    let name = &bytes[24..40];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    Ok(MapInfo {
        kind: number_at(&bytes, 0),
        id: number_at(&bytes, 4),
        key_size: number_at(&bytes, 8),
        value_size: number_at(&bytes, 12),
        max_entries: number_at(&bytes, 16),
        flags: number_at(&bytes, 20),
        name: String::from_utf8_lossy(&name[..end]).into_owned(),
    })
}

/// The number of CPUs that maps have values for. It is fixed when the kernel starts.
pub fn possible_cpus() -> Result<usize> {
    let text = fs::read_to_string(CPUS).map_err(|error| Error::io(format!("reading {CPUS}"), error))?;
    count_cpus(text.trim()).ok_or_else(|| Error::malformed(format!("reading {CPUS}"), text.trim()))
}

/// The highest number and one: `0-3` is four.
fn count_cpus(text: &str) -> Option<usize> {
    text.rsplit([',', '-']).next()?.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_from_their_ranges() {
        assert_eq!(count_cpus("0"), Some(1));
        assert_eq!(count_cpus("0-127"), Some(128));
        assert_eq!(count_cpus("0,2-3"), Some(4));
        assert_eq!(count_cpus(""), None);
    }
}
