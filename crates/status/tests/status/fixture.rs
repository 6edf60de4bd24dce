//! A status with all its servers, and a fake clock.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use portolan_kernel::enter_new_network_namespace;
use portolan_status::{Build, Clock, Listen, Moment, Options, Pages, Status, TrafficLimits};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub(crate) struct Fixture {
    pub(crate) status: Status,
    pub(crate) time: Time,
    _runtime: Runtime,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        enter_network_of_our_own();
        let (time, runtime) = (Time::default(), Runtime::start());
        let mut options = options(&time);
        change(&mut options);
        Self { status: Status::start(options, &runtime.handle).unwrap(), time, _runtime: runtime }
    }

    pub(crate) fn healthz(&self) -> SocketAddr {
        reachable(self.status.healthz_address().unwrap())
    }

    pub(crate) fn metrics(&self) -> SocketAddr {
        reachable(self.status.metrics_address().unwrap())
    }
}

pub(crate) fn options(time: &Time) -> Options {
    let build = Build { version: "0.1.0".into(), kubernetes_version: "v1.37.1".into(), mode: "nftables".into() };
    Options {
        healthz: any_port(),
        metrics: any_port(),
        health_timeout: Duration::from_secs(60),
        build,
        pages: Pages::default(),
        read_traffic: None,
        traffic_limits: TrafficLimits::default(),
        clock: time.clock(),
    }
}

pub(crate) fn any_port() -> Listen {
    at("127.0.0.1:0")
}

pub(crate) fn at(address: &str) -> Listen {
    Listen { address: Some(address.parse().unwrap()), must_succeed: true }
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = if address.ip().is_unspecified() { "127.0.0.1".parse().unwrap() } else { address.ip() };
    SocketAddr::new(ip, address.port())
}

/// Moves the thread of the test, and those that it starts from now on, to a namespace with only a loopback interface.
pub(crate) fn enter_network_of_our_own() {
    enter_new_network_namespace().expect("root may make network namespaces; run this as root");
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status();
    assert!(up.expect("the program ip is installed (package iproute2)").success());
}

#[derive(Clone)]
pub(crate) struct Time(Arc<Mutex<Moment>>);

impl Default for Time {
    fn default() -> Self {
        let wall = "2026-11-01T12:00:00.5Z".parse().unwrap();
        Self(Arc::new(Mutex::new(Moment { wall, since_start: Duration::ZERO })))
    }
}

impl Time {
    pub(crate) fn clock(&self) -> Clock {
        let time = self.0.clone();
        Clock::new(move || *time.lock().unwrap())
    }

    pub(crate) fn pass(&self, seconds: u64) {
        let mut now = self.0.lock().unwrap();
        now.wall = now.wall.checked_add(jiff::SignedDuration::from_secs(seconds as i64)).unwrap();
        now.since_start += Duration::from_secs(seconds);
    }

    /// Sets the wall clock.
    pub(crate) fn set(&self, wall: &str) {
        self.0.lock().unwrap().wall = wall.parse::<Timestamp>().unwrap();
    }
}

/// One thread for all I/O, as in the daemon.
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    _stop: oneshot::Sender<()>,
}

impl Runtime {
    pub(crate) fn start() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || _ = runtime.block_on(stopped));
        Self { handle, _stop: stop }
    }
}
