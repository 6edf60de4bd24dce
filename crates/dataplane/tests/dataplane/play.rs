//! Random histories of a cluster, played in one mode.

use portolan_dataplane::mode::{Mode, Synchronize};
use portolan_dataplane::tables::{VARIANT_OPTION, Variant};
use portolan_dataplane::{Error, ModeSettings, OptionValue, Options, SyncReport, Trust};
use portolan_plan::{Plan, PlanConfig, plan};
use portolan_testkit::Cgroup;

use crate::history::random::check;
use crate::history::{Happening, beginning, config, happen};

/// Plays a history with one sync per event, and compares the kernel with a plan from scratch.
pub(crate) fn play(mode: &dyn Mode, history: &[Happening], kernel: &mut dyn Synchronize) {
    let config = PlanConfig { limits: mode.limits(), ..config() };
    let (mut snapshot, mut last) = (beginning(), Plan::default());
    for happening in history {
        happen(&mut snapshot, happening);
        last = plan(&snapshot, &last, &config);
        until_ok(|| whole(kernel.sync(&last, Trust::Memory)));
    }
    let difference = until_ok(|| kernel.verify(&plan(&snapshot, &Plan::default(), &config)));
    assert!(difference.is_empty(), "{} mode:\n{}", mode.name(), difference.text);
}

/// A sync of which one family failed has failed.
fn whole(sync: Result<SyncReport, Error>) -> Result<(), String> {
    sync.map_err(|error| error.to_string())?.failure.map_or(Ok(()), Err)
}

/// Retries on a kernel that fails at random; one that always fails has a bug.
fn until_ok<T, E: std::fmt::Display>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    for count in 1.. {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert!(count < 100, "{error}"),
        }
    }
    unreachable!("the loop does not end")
}

/// HISTORIES=10 for a slow machine.
pub(crate) fn cases(usual: u32) -> u32 {
    std::env::var("HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Half of the histories run in the legacy tables, in a mode with iptables rules.
pub(crate) fn check_in_real_kernel(mode: &dyn Mode, usual: u32) {
    // Hooks at the root would concern every process of this machine.
    let cgroup = Cgroup::create().expect("cgroup v2 is mounted");
    check(cases(usual), |history, random| {
        let variant = if random % 2 == 1 { Variant::Legacy } else { Variant::Nft };
        let mut options = Options::default();
        options.set(VARIANT_OPTION, OptionValue::Text(variant.name().into()));
        options.set("ebpf-cgroup", OptionValue::Text(cgroup.path().display().to_string()));
        let settings = ModeSettings { options, ..ModeSettings::default() };
        play(mode, history, &mut *mode.open(&settings).expect("the mode can be opened"));
    });
}
