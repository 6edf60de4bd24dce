//! What this mode needs of the kernel, and a trial of whether the machine has it.

use portolan_kernel::bpf::{Loader, Map, find_cgroup2, network_namespace_cookie};

use super::hooks::{constants, object};
use crate::Error;
use crate::requirements::Feature;

pub(super) const FEATURES: &[Feature] = &[
    Feature { since: (5, 14), what: "cookies of network namespaces", without: None },
    Feature {
        since: (5, 18),
        what: "error numbers of BPF hooks",
        without: Some("the rules refuse connections, not the hooks"),
    },
];

/// What the machine lacks, as a clause. Nothing stays.
pub(super) fn refused() -> Option<String> {
    match find_cgroup2() {
        Ok(Some(_)) => {}
        Ok(None) => return Some("cgroup v2 is not mounted".into()),
        Err(error) => return Some(error.to_string()),
    }
    trial()
        .err()
        .map(|error| format!("a trial of the hooks failed (they need CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON): {error}"))
}

/// Loads the first program.
fn trial() -> Result<(), Error> {
    let object = object()?;
    let maps = object.maps.iter().map(|it| Ok((it.name.clone(), Map::create(it)?)));
    let maps = maps.collect::<Result<std::collections::BTreeMap<_, _>, Error>>()?;
    let rodata = Map::frozen("constants", &constants(&object, network_namespace_cookie()?, false, &[])?)?;
    let loader = Loader::new(&object, |name| maps.get(name), Some(&rodata))?;
    if let Some(program) = object.programs.first() {
        loader.load(&program.name)?;
    }
    Ok(())
}
