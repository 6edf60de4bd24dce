//! Pins, replacement of programs, and what links report.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use portolan_kernel::bpf::{Cgroup, Hook, Link, Map, Program};

use super::entries::TCP;
use super::lab::{Lab, Pins, ask_tcp, serve_tcp};

const FRONTEND: &str = "10.96.0.1:80";
const ENDPOINT: &str = "127.0.1.1:8080";

fn with_service() -> Lab {
    let lab = Lab::in_pod();
    lab.serve(FRONTEND, TCP, 1, &[ENDPOINT]);
    serve_tcp(ENDPOINT);
    lab
}

#[test]
fn pinned_maps_programs_and_links_outlive_their_owner() {
    let mut lab = with_service();
    let pins = Pins::new("links");
    for (hook, link) in lab.links.drain(..) {
        link.pin(&pins.at(&format!("link-{}", hook.attach_type()))).unwrap();
    }
    lab.map("frontends").pin(&pins.at("frontends")).unwrap();
    let program = lab.load().swap_remove(0);
    program.pin(&pins.at("program")).unwrap();
    lab.cgroup.enter();
    assert_eq!(ask_tcp(FRONTEND).unwrap().0, ENDPOINT);

    let frontends = Map::open(&pins.at("frontends")).unwrap().unwrap();
    assert_eq!(frontends.info(), lab.map("frontends").info());
    assert!(frontends.info().is_like(lab.object.map("frontends").unwrap()));
    let opened = Program::open(&pins.at("program"), program.name(), program.hook()).unwrap().unwrap();
    assert_eq!(opened.info().unwrap(), program.info().unwrap());
    assert!(Map::open(&pins.at("absent")).unwrap().is_none());
    assert!(Link::open(&pins.at("absent")).unwrap().is_none());

    for hook in Hook::ALL.into_iter().filter(|hook| *hook != Hook::IterateUdp) {
        std::fs::remove_file(pins.at(&format!("link-{}", hook.attach_type()))).unwrap();
    }
    // The kernel detaches a link a moment after its last holder is gone.
    let deadline = Instant::now() + Duration::from_secs(10);
    while ask_tcp(FRONTEND).is_ok() {
        assert!(Instant::now() < deadline, "without its pin a link is detached");
    }
}

#[test]
fn a_link_reports_its_program_and_its_cgroup() {
    let lab = with_service();
    let (hook, link) = &lab.links[0];
    let info = link.info().unwrap();
    let attached = info.attached.unwrap();
    let cgroup = Cgroup::open(&lab.cgroup.path).unwrap();
    assert_eq!((attached.attach_type, attached.cgroup), (hook.attach_type(), cgroup.id()));
    let programs = lab.load();
    let new = programs.iter().find(|it| it.hook() == *hook).unwrap();
    assert_ne!(info.program, new.info().unwrap().id);
    link.update(new).unwrap();
    assert_eq!(link.info().unwrap().program, new.info().unwrap().id);
    // At once, unlike a removed pin.
    link.detach().unwrap();
    assert_eq!(link.info().unwrap().attached.unwrap().cgroup, 0);
}

#[test]
fn no_connection_fails_while_programs_are_replaced() {
    const ROUNDS: u32 = 10;
    let lab = with_service();
    let rounds = AtomicU32::new(0);
    lab.cgroup.enter();
    thread::scope(|scope| {
        scope.spawn(|| {
            while rounds.fetch_add(1, Ordering::Relaxed) < ROUNDS {
                for program in lab.load() {
                    let (_, link) = lab.links.iter().find(|(hook, _)| *hook == program.hook()).unwrap();
                    link.update(&program).unwrap();
                }
            }
        });
        while rounds.load(Ordering::Relaxed) <= ROUNDS {
            assert_eq!(ask_tcp(FRONTEND).unwrap().0, ENDPOINT);
        }
    });
}
