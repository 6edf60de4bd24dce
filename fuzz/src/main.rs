//! libFuzzer on one target of crates/fuzz, which the environment variable `FUZZ_TARGET` names.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use portolan_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name} is no target: {}", names.join(", ")))
});

fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
