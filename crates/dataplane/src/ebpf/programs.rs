//! The compiled programs, their constants, and how they are loaded.

use std::collections::BTreeMap;

use portolan_kernel::bpf::{END_UDP, Loader, Map, Object, Program, SOCKET_HOOKS};

use super::pins::failure;
use crate::Error;

const END_PROGRAM: &str = "end_udp";

/// A program in the kernel, with its number there.
pub(super) struct Loaded {
    pub(super) program: Program,
    pub(super) id: u32,
}

pub(super) fn object() -> Result<Object, Error> {
    Object::parse(SOCKET_HOOKS).map_err(|error| failure("reading the compiled hooks", error))
}

fn ending_object() -> Result<Object, Error> {
    Object::parse(END_UDP).map_err(|error| failure("reading the compiled program that ends sockets", error))
}

/// The version of the layouts of the maps.
pub(super) fn layout(object: &Object) -> u64 {
    object.constant(&object.rodata, "layout").unwrap_or(0)
}

/// The constants that programs are loaded with. A refusal has its own error number since Linux 5.18.
pub(super) fn constants(
    object: &Object,
    namespace: u64,
    can_refuse: bool,
    more: &[(&str, u64)],
) -> Result<Vec<u8>, Error> {
    let values = [&[("host_cookie", namespace), ("retval", u64::from(can_refuse))], more].concat();
    object.rodata_with(&values).map_err(|error| failure("setting the constants of the hooks", error))
}

/// The hooks over these maps, by their names. `constants` takes whether a hook can refuse a connection.
pub(super) fn load<'a>(
    object: &Object,
    map: impl Fn(&str) -> Option<&'a Map>,
    constants: impl Fn(bool) -> Result<Vec<u8>, Error>,
) -> Result<BTreeMap<String, Loaded>, Error> {
    match load_with(object, &map, &constants(true)?) {
        Err(Error::Kernel(portolan_kernel::Error::Refused { .. })) => load_with(object, &map, &constants(false)?),
        loaded => loaded,
    }
}

fn load_with<'a>(
    object: &Object,
    map: impl Fn(&str) -> Option<&'a Map>,
    constants: &[u8],
) -> Result<BTreeMap<String, Loaded>, Error> {
    let rodata = Map::frozen("constants", constants)?;
    let loader = Loader::new(object, map, Some(&rodata))?;
    let mut programs = BTreeMap::new();
    for code in &object.programs {
        let program = loader.load(&code.name)?;
        let id = program.info()?.id;
        programs.insert(code.name.clone(), Loaded { program, id });
    }
    Ok(programs)
}

/// The program that ends connected UDP sockets. Those that cannot be ended are left to the rules when they connect.
pub(super) fn load_ending<'a>(map: impl Fn(&str) -> Option<&'a Map>) -> Option<Program> {
    let load = || Ok(Loader::new(&ending_object()?, map, None)?.load(END_PROGRAM)?);
    let loaded: Result<Program, Error> = load();
    loaded.inspect_err(|error| tracing::info!("the rules serve connected UDP sockets: {error}")).ok()
}
