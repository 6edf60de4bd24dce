//! What this mode needs of the kernel, and a trial of whether the machine has it.

use std::io;

use portolan_kernel::Error as KernelError;
use portolan_kernel::bpf::{Loader, Map, find_cgroup2, network_namespace_cookie};

use super::clients::at_first;
use super::pins::prepare_pins;
use super::programs::{constants, object};
use crate::Error;
use crate::requirements::Feature;

pub(super) const FEATURES: &[Feature] = &[
    Feature { since: (5, 14), what: "cookies of network namespaces", without: None },
    Feature {
        since: (5, 18),
        what: "error numbers of BPF hooks",
        without: Some("the rules refuse connections, not the hooks"),
    },
    Feature {
        since: (6, 5),
        what: "ending of sockets by BPF programs",
        without: Some("the rules serve connected UDP sockets, not the hooks"),
    },
];

/// What the machine lacks, as a clause. Nothing stays but the mount of bpf and an empty folder in it.
pub(super) fn refused() -> Option<String> {
    match find_cgroup2() {
        Ok(Some(_)) => {}
        Ok(None) => return Some("cgroup v2 is not mounted".into()),
        Err(error) => return Some(error.to_string()),
    }
    if let Err(error) = prepare_pins() {
        return Some(format!("hooks cannot be pinned: {error}"));
    }
    trial().err().map(|error| format!("a trial of the hooks failed: {}", clause(&error)))
}

/// The verifier refuses some programs without a capability; its log is of no use then.
fn clause(error: &Error) -> String {
    let Error::Kernel(refusal @ KernelError::Refused { attempted, .. }) = error else { return error.to_string() };
    let kind = refusal.errno().map(|number| io::Error::from_raw_os_error(number).kind());
    if kind != Some(io::ErrorKind::PermissionDenied) {
        return error.to_string();
    }
    format!("the kernel refused {attempted} (needs the capabilities CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)")
}

/// Loads all programs.
fn trial() -> Result<(), Error> {
    let object = object()?;
    let maps = object.maps.iter().map(|it| Ok((it.name.clone(), Map::create(&at_first(it))?)));
    let maps = maps.collect::<Result<std::collections::BTreeMap<_, _>, Error>>()?;
    let rodata = Map::frozen("constants", &constants(&object, network_namespace_cookie()?, false, &[])?)?;
    let loader = Loader::new(&object, |name| maps.get(name), Some(&rodata))?;
    for program in &object.programs {
        loader.load(&program.name)?;
    }
    Ok(())
}
