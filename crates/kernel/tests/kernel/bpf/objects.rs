//! The committed objects: what they contain, that they are those of their sources, and what the verifier says.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use portolan_kernel::bpf::{END_UDP, Hook, Loader, Map, Object, Reference, SOCKET_HOOKS};

const COMPILER: &str = "clang-14";

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf")
}

#[test]
fn the_objects_are_those_of_their_sources() {
    if Command::new(COMPILER).arg("--version").output().is_err() {
        eprintln!("skipped: {COMPILER} is not installed");
        return;
    }
    for (name, committed) in [("sock", SOCKET_HOOKS), ("end", END_UDP)] {
        let built = std::env::temp_dir().join(format!("portolan-{}-{name}.bpf.o", std::process::id()));
        let mut make = Command::new("make");
        make.args(["--silent", "--directory"]).arg(sources()).arg("object");
        make.arg(format!("SOURCE={name}.bpf.c")).arg(format!("OBJECT={}", built.display()));
        let output = make.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(&built).unwrap();
        std::fs::remove_file(&built).unwrap();
        assert!(bytes == committed, "bpf/{name}.bpf.o is not that of its source: run `make bpf`");
    }
}

#[test]
fn the_hooks_are_complete() {
    let object = Object::parse(SOCKET_HOOKS).unwrap();
    let mut hooks: Vec<Hook> = object.programs.iter().map(|it| Hook::of_section(&it.section).unwrap()).collect();
    hooks.sort();
    assert_eq!(hooks, Hook::ALL[..9]);
    let mut maps: Vec<&str> = object.maps.iter().map(|it| it.name.as_str()).collect();
    maps.sort_unstable();
    let expected = [
        "clients",
        "connections",
        "endpoints",
        "exchanges",
        "first_traffic",
        "frontends",
        "members",
        "namespaces",
        "own",
        "refusals",
        "traffic",
    ];
    assert_eq!(maps, expected);
    let mut constants: Vec<&str> = object.constants.iter().map(|it| it.name.as_str()).collect();
    constants.sort_unstable();
    assert_eq!(constants, ["host_cookie", "layout", "pass_root", "retval", "udp_connect"]);
    assert_eq!(object.license, "GPL");

    let end = Object::parse(END_UDP).unwrap();
    assert_eq!(end.functions, ["bpf_sock_destroy"]);
    for map in &end.maps {
        assert_eq!(Some(map), object.map(&map.name));
    }
    let calls = end.programs[0].references.values().filter(|it| matches!(it, Reference::Function(0)));
    assert_eq!(calls.count(), 1);
}

#[test]
fn constants_are_set_by_name() {
    let object = Object::parse(SOCKET_HOOKS).unwrap();
    let rodata = object.rodata_with(&[("host_cookie", u64::MAX), ("retval", 1)]).unwrap();
    let value = |name| object.constant(&rodata, name);
    assert_eq!((value("host_cookie"), value("retval"), value("layout")), (Some(u64::MAX), Some(1), Some(3)));
    assert_eq!(value("absent"), None);
    assert!(object.rodata_with(&[("absent", 1)]).is_err());
    assert!(object.rodata_with(&[("retval", 1 << 32)]).is_err());
}

#[test]
fn malformed_objects_are_errors() {
    for bytes in [SOCKET_HOOKS, END_UDP] {
        for length in (0..bytes.len()).step_by(7) {
            assert!(Object::parse(&bytes[..length]).is_err(), "{length}");
        }
        for at in (0..bytes.len()).step_by(7) {
            let mut changed = bytes.to_vec();
            changed[at] ^= 0xff;
            let _ = Object::parse(&changed);
        }
    }
}

#[test]
fn the_verifier_accepts_every_combination_of_constants() {
    let object = Object::parse(SOCKET_HOOKS).unwrap();
    let maps: Vec<Map> = object.maps.iter().map(|it| Map::create(it).unwrap()).collect();
    let map = |name: &str| object.maps.iter().position(|it| it.name == name).map(|index| &maps[index]);
    for bits in 0..8 {
        let names = ["udp_connect", "pass_root", "retval"];
        let values: Vec<(&str, u64)> = names.iter().enumerate().map(|(bit, name)| (*name, bits >> bit & 1)).collect();
        let rodata = Map::frozen("rodata", &object.rodata_with(&values).unwrap()).unwrap();
        let loader = Loader::new(&object, map, Some(&rodata)).unwrap();
        for code in &object.programs {
            let start = Instant::now();
            let program = loader.load(&code.name).unwrap();
            let (count, time) = (code.instructions.len(), start.elapsed());
            println!(
                "{values:?} {}: {count} instructions, {time:?}, tag {:02x?}",
                code.name,
                program.info().unwrap().tag
            );
        }
    }
}

#[test]
fn a_refused_program_comes_with_the_log_of_the_verifier() {
    let mut object = Object::parse(SOCKET_HOOKS).unwrap();
    let code = object.programs.iter_mut().find(|it| it.name == "count_bytes").unwrap();
    // Returns without a result.
    code.instructions = vec![portolan_kernel::bpf::Instruction { opcode: 0x95, ..Default::default() }];
    code.references.clear();
    let maps: Vec<Map> = object.maps.iter().map(|it| Map::create(it).unwrap()).collect();
    let map = |name: &str| object.maps.iter().position(|it| it.name == name).map(|index| &maps[index]);
    let rodata = Map::frozen("rodata", &object.rodata).unwrap();
    let Err(error) = Loader::new(&object, map, Some(&rodata)).unwrap().load("count_bytes") else {
        panic!("it is loaded")
    };
    assert_eq!(error.errno(), Some(libc::EACCES));
    assert!(error.to_string().contains("R0 !read_ok"), "{error}");
}

/// Kernels before 5.18 lack the helper for refusals: a branch that a constant excludes is not verified.
#[test]
fn an_unknown_helper_is_accepted_behind_a_constant() {
    let mut object = Object::parse(SOCKET_HOOKS).unwrap();
    let code = object.programs.iter_mut().find(|it| it.name == "connect4").unwrap();
    let is_refusal = |it: &&mut portolan_kernel::bpf::Instruction| it.opcode == 0x85 && it.immediate == 187;
    let calls: Vec<_> = code.instructions.iter_mut().filter(is_refusal).collect();
    assert!(!calls.is_empty());
    calls.into_iter().for_each(|it| it.immediate = 9999);
    let maps: Vec<Map> = object.maps.iter().map(|it| Map::create(it).unwrap()).collect();
    let map = |name: &str| object.maps.iter().position(|it| it.name == name).map(|index| &maps[index]);
    for (retval, is_loaded) in [(0, true), (1, false)] {
        let rodata = Map::frozen("rodata", &object.rodata_with(&[("retval", retval)]).unwrap()).unwrap();
        let outcome = Loader::new(&object, map, Some(&rodata)).unwrap().load("connect4");
        assert_eq!(outcome.is_ok(), is_loaded, "{:?}", outcome.err());
    }
}
