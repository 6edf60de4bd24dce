//! The state between two calls, in files.
//!
//! A test changes it while programs run by `change.json`, whose fields replace those of the state at the next call.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use portolan_hns::{Endpoint, Error, ErrorKind, Habits, LoadBalancer, MemoryHns, Network, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `state.json`. A test writes it before the first call, and reads it after the last.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
pub(crate) struct State {
    pub(crate) networks: Vec<Network>,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) balancers: Vec<LoadBalancer>,
    /// Two numbers; the newest that is known if there are none.
    version: Vec<u32>,
    /// Objects get identities of HNS's own making.
    ignores_identities: bool,
    /// Modification answers "not implemented".
    lacks_modification: bool,
    /// One call in so many fails, half of them after their effect; 0 means never.
    fails_one_in: u64,
    /// Calls that fail without effect, by name.
    refusals: Vec<Refusal>,
    /// The process ends without a word when so many more calls have been made; 0 means never.
    dies_after: u64,
    /// Calls so far.
    calls: u64,
}

/// Calls of this name fail so many more times.
#[derive(Serialize, Deserialize)]
struct Refusal {
    call: String,
    code: u32,
    times: u64,
}

impl State {
    fn refusal(&mut self, name: &str) -> Option<Error> {
        let refusal = self.refusals.iter_mut().find(|it| it.call == name && it.times > 0)?;
        refusal.times -= 1;
        Some(Error::new("a call that a test refuses", refusal.code, "refused"))
    }

    /// Whether a call that changes no object changes the state.
    fn counts(&self) -> bool {
        self.dies_after > 0 || self.fails_one_in > 0 || !self.refusals.is_empty()
    }

    fn habits(&self) -> Habits {
        let version = match self.version[..] {
            [major, minor] => Version::new(major, minor),
            _ => Version::MODIFIES,
        };
        Habits { version, ignores_identities: self.ignores_identities, lacks_modification: self.lacks_modification }
    }

    /// Whether this call fails, and whether it has its effect all the same.
    fn failure(&self) -> Option<bool> {
        let mixed = self.calls.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (self.fails_one_in > 0 && mixed % self.fails_one_in == 0).then(|| mixed / self.fails_one_in % 2 == 1)
    }
}

fn folder() -> PathBuf {
    std::env::var_os("HNS_STATE").map_or_else(|| r"C:\hns".into(), PathBuf::from)
}

/// Held during a call: calls of all processes follow each other.
fn lock(folder: &Path) -> std::io::Result<File> {
    fs::create_dir_all(folder)?;
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
    file.lock()?;
    Ok(file)
}

/// The state as this process has read or written it last. With thousands of objects, reading it for every call would take minutes.
struct Held {
    stamp: Option<Stamp>,
    state: State,
    hns: MemoryHns,
}

/// Another process that writes makes another file.
type Stamp = (SystemTime, u64);

static HELD: Mutex<Option<Held>> = Mutex::new(None);

fn stamp(folder: &Path) -> Option<Stamp> {
    let data = fs::metadata(folder.join("state.json")).ok()?;
    Some((data.modified().ok()?, data.len()))
}

fn read(folder: &Path) -> Held {
    let stamp = stamp(folder);
    let state = load(folder);
    let hns = MemoryHns::new(state.habits());
    hns.restore(&state.networks, &state.endpoints, &state.balancers, state.calls);
    Held { stamp, state, hns }
}

/// Performs a call on the state, with a line in the log.
pub(crate) fn call<T>(
    name: &str,
    arguments: &str,
    effect: impl FnOnce(&mut MemoryHns) -> Result<T, Error>,
) -> Result<T, Error> {
    let broken = |error: std::io::Error| Error::new("using the state of the stand-in", 0x8000_4005, error.to_string());
    let folder = folder();
    let _lock = lock(&folder).map_err(broken)?;
    let mut place = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let is_changed = folder.join("change.json").exists();
    let known = place.take().filter(|held| !is_changed && held.stamp.is_some() && held.stamp == stamp(&folder));
    let held = place.insert(known.unwrap_or_else(|| read(&folder)));
    held.state.calls += 1;
    let outcome = match held.state.refusal(name) {
        Some(error) => Err(error),
        None => perform(held, effect),
    };
    let code = outcome.as_ref().err().map_or(0, Error::code);
    log(&folder, &format!("{} {name} 0x{code:08x} {arguments}\n", held.state.calls)).map_err(broken)?;
    let is_last = held.state.dies_after == 1;
    let counts = is_changed || held.state.counts();
    held.state.dies_after = held.state.dies_after.saturating_sub(1);
    if counts || ["Create", "Modify", "Delete"].iter().any(|it| name.contains(it)) {
        (held.state.endpoints, held.state.balancers) = held.hns.held();
        save(&folder, &held.state).map_err(broken)?;
        held.stamp = stamp(&folder);
    }
    if is_last {
        std::process::exit(137);
    }
    outcome
}

fn perform<T>(held: &mut Held, effect: impl FnOnce(&mut MemoryHns) -> Result<T, Error>) -> Result<T, Error> {
    let failure = held.state.failure();
    let failed = || Error::of(ErrorKind::Other, "a call that the stand-in lets fail");
    if failure == Some(false) {
        return Err(failed());
    }
    let outcome = effect(&mut held.hns);
    if failure == Some(true) { Err(failed()) } else { outcome }
}

fn log(folder: &Path, line: &str) -> std::io::Result<()> {
    OpenOptions::new().create(true).append(true).open(folder.join("calls.log"))?.write_all(line.as_bytes())
}

fn load(folder: &Path) -> State {
    let read = |name: &str| serde_json::from_slice::<Value>(&fs::read(folder.join(name)).ok()?).ok();
    let mut state = read("state.json").unwrap_or_default();
    if let (Some(Value::Object(change)), Some(state)) = (read("change.json"), state.as_object_mut()) {
        state.extend(change);
        _ = fs::remove_file(folder.join("change.json"));
    }
    serde_json::from_value(state).unwrap_or_default()
}

/// Readers see the old state or the new one.
fn save(folder: &Path, state: &State) -> std::io::Result<()> {
    let text = serde_json::to_string(state).map_err(std::io::Error::other)?;
    fs::write(folder.join("state.new"), text)?;
    fs::rename(folder.join("state.new"), folder.join("state.json"))
}
