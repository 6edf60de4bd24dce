//! Loads the programs of an object over given maps.

use crate::system::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use crate::system::libc;
use std::ffi::CString;
use std::io;
use std::io::ErrorKind::{NotFound, Unsupported};
use std::path::Path;

use super::btf::KernelTypes;
use super::call::{self, Arguments, Command, failed, impossible, number_at};
use super::hook::Hook;
use super::instruction::Instruction;
use super::map::Map;
use super::object::{Code, Object, Reference};
use crate::error::{Error, Refusal, Result};

/// What the source register of an instruction says about its immediate: a map, a value of a map, a kernel function.
const IS_MAP: u8 = 1;
const IS_MAP_VALUE: u8 = 2;
const IS_FUNCTION: u8 = 2;

/// A signal for the thread ends the work of the verifier: `EAGAIN`.
const ATTEMPTS: u32 = 20;

const LOG_LENGTH: usize = 1 << 20;
/// The end of the verifier's log has the reason.
const REPORTED_LOG: usize = 2000;

/// The maps, constants and functions that the programs of an object are loaded with.
pub struct Loader<'a> {
    object: &'a Object,
    maps: Vec<&'a Map>,
    rodata: Option<&'a Map>,
    types: Option<KernelTypes>,
}

/// A loaded program.
pub struct Program {
    descriptor: OwnedFd,
    name: String,
    hook: Hook,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramInfo {
    pub id: u32,
    /// A hash of the instructions, which maps and constants do not change.
    pub tag: [u8; 8],
}

impl<'a> Loader<'a> {
    /// `map` gives the map of a name; `rodata` is a frozen one with the constants.
    pub fn new<'m: 'a>(
        object: &'a Object,
        map: impl Fn(&str) -> Option<&'m Map>,
        rodata: Option<&'a Map>,
    ) -> Result<Self> {
        let missing = |name: &str| impossible("loading a BPF object", NotFound, format!("the map {name} is missing"));
        let found = object.maps.iter().map(|it| map(&it.name).ok_or_else(|| missing(&it.name)));
        let maps = found.collect::<Result<Vec<&'a Map>>>()?;
        if !object.rodata.is_empty() && rodata.is_none() {
            return Err(missing("rodata"));
        }
        let is_typed = object.programs.iter().any(|it| hook_of(it).is_ok_and(|hook| hook.kernel_function().is_some()));
        let types = if is_typed || !object.functions.is_empty() { Some(KernelTypes::read()?) } else { None };
        Ok(Self { object, maps, rodata, types })
    }

    /// Has the kernel verify and compile the program of this name.
    pub fn load(&self, name: &str) -> Result<Program> {
        let missing = || impossible(format!("loading the BPF program {name}"), NotFound, "the object does not have it");
        let code = self.object.program(name).ok_or_else(missing)?;
        let hook = hook_of(code)?;
        let bytes = self.encode(code)?;
        let function = hook.kernel_function().map(|function| self.function(function)).transpose()?;
        let load = |log: Option<&mut [u8]>| load(code, &self.object.license, hook, &bytes, function, log);
        let loaded =
            unless_interrupted(|| load(None)).map_err(|error| refused(name, error, |log| drop(load(Some(log)))));
        Ok(Program { descriptor: loaded?, name: name.to_owned(), hook })
    }

    fn encode(&self, code: &Code) -> Result<Vec<u8>> {
        let mut instructions = code.instructions.clone();
        for (index, reference) in &code.references {
            let [first, rest @ ..] = instructions.get_mut(*index..).unwrap_or_default() else { continue };
            match reference {
                Reference::Map(map) => refer(first, IS_MAP, self.maps.get(*map).copied()),
                Reference::Rodata(offset) => {
                    refer(first, IS_MAP_VALUE, self.rodata);
                    rest.iter_mut().take(1).for_each(|second| second.immediate = offset.cast_signed());
                }
                Reference::Function(function) => {
                    first.source = IS_FUNCTION;
                    first.immediate = self.function(&self.object.functions[*function])?.cast_signed();
                }
            }
        }
        Ok(instructions.into_iter().flat_map(Instruction::encode).collect())
    }

    fn function(&self, name: &str) -> Result<u32> {
        let missing = || impossible("loading a BPF object", NotFound, "the types of the kernel were not read");
        self.types.as_ref().ok_or_else(missing)?.function(name)
    }
}

fn refer(instruction: &mut Instruction, what: u8, map: Option<&Map>) {
    instruction.source = what;
    instruction.immediate = map.map_or(-1, |map| map.as_fd().as_raw_fd());
}

fn hook_of(code: &Code) -> Result<Hook> {
    let unknown =
        || impossible(format!("loading the BPF program {}", code.name), Unsupported, "its section is unknown");
    Hook::of_section(&code.section).ok_or_else(unknown)
}

fn load(
    code: &Code,
    license: &str,
    hook: Hook,
    bytes: &[u8],
    function: Option<u32>,
    log: Option<&mut [u8]>,
) -> io::Result<OwnedFd> {
    let license = CString::new(license)?;
    let count = u32::try_from(code.instructions.len()).map_err(io::Error::other)?;
    let arguments = Arguments::default()
        .number(0, hook.program_type())
        .number(4, count)
        .input(8, bytes)
        .input(16, license.as_bytes_with_nul())
        .name(48, &code.name)
        .number(68, hook.attach_type())
        .number(108, function.unwrap_or(0));
    let mut arguments = match log {
        Some(log) => arguments.number(24, 1).number(28, u32::try_from(log.len()).unwrap_or(0)).output(32, log),
        None => arguments,
    };
    arguments.open(Command::ProgramLoad)
}

fn unless_interrupted<T>(mut load: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 1..ATTEMPTS {
        match load() {
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {}
            outcome => return outcome,
        }
    }
    load()
}

/// The refusal with the end of the verifier's log, for which the program is loaded a second time.
fn refused(name: &str, error: io::Error, load: impl FnOnce(&mut [u8])) -> Error {
    let attempted = format!("the BPF program {name}");
    if error.raw_os_error() == Some(libc::EPERM) {
        return failed(format!("loading {attempted}"), error);
    }
    let mut log = vec![0; LOG_LENGTH];
    load(&mut log);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let start = end.saturating_sub(REPORTED_LOG);
    let reason = String::from_utf8_lossy(&log[start..end]).trim().to_owned();
    let refusal = Refusal { message: String::new(), errno: error.raw_os_error().unwrap_or(0), reason };
    Error::Refused { attempted, refusals: vec![refusal] }
}

impl Program {
    /// Opens a pinned program; `None` if there is none.
    pub fn open(path: &Path, name: &str, hook: Hook) -> Result<Option<Self>> {
        match call::open_pinned(path) {
            Ok(descriptor) => Ok(Some(Self { descriptor, name: name.to_owned(), hook })),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            Err(error) => Err(failed(format!("opening the BPF program {}", path.display()), error)),
        }
    }

    pub fn pin(&self, path: &Path) -> Result<()> {
        let attempted = || format!("pinning the BPF program {} at {}", self.name, path.display());
        call::pin(self.as_fd(), path).map_err(|error| failed(attempted(), error))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn hook(&self) -> Hook {
        self.hook
    }

    /// From `struct bpf_prog_info`.
    pub fn info(&self) -> Result<ProgramInfo> {
        let attempted = || format!("reading the BPF program {}", self.name);
        let bytes: [u8; 64] = call::information(self.as_fd()).map_err(|error| failed(attempted(), error))?;
        let tag = bytes[8..].first_chunk().copied().unwrap_or_default();
        Ok(ProgramInfo { id: number_at(&bytes, 4), tag })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
