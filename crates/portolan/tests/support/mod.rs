//! Runs scenario files: parses their flags, and plans their objects.

mod story;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use clap::Parser;
use portolan::flags::{Cli, Command, RenderFlags};
use portolan::host;
use portolan::settings::QuestionSettings;
use portolan_model::{Protocol, Snapshot};
use portolan_plan::{Packet, Plan, PlanConfig, plan};
use portolan_source::{Manifests, Options, State};
use portolan_testkit::{PacketLine, Protocol as WireProtocol, Scenario, topology};
pub(crate) use story::Story;

/// Flags of every scenario, unless its own flags override them.
const DEFAULTS: [(&str, &str); 2] =
    [("--hostname-override", "node-a"), ("--service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112")];

/// The settings from the flags of a scenario.
#[derive(Clone)]
struct Settings {
    options: Options,
    config: PlanConfig,
    masquerade_bit: u8,
}

impl Settings {
    /// Read once for all sessions of a program, because kube-proxy has many flags to parse.
    fn of(scenario: &Scenario) -> Self {
        static READ: Mutex<BTreeMap<String, Settings>> = Mutex::new(BTreeMap::new());
        let mut read = READ.lock().expect("the flags of every scenario are right");
        read.entry(scenario.name.clone()).or_insert_with(|| Self::read(scenario)).clone()
    }

    fn read(scenario: &Scenario) -> Self {
        let flags = parse_flags(scenario);
        let settings = QuestionSettings::read(&flags.settings).expect("the scenario's flags are right");
        let options = Options { state: State::None, ..settings.manifests };
        // The flag applies in every mode here, also in those where kube-proxy ignores it.
        let loopback_node_ports = flags.settings.kube_proxy.0.boolean("iptables-localhost-nodeports");
        let config = PlanConfig { loopback_node_ports, ..settings.traffic.plan };
        Self { options, config, masquerade_bit: settings.traffic.mode_settings.masquerade_bit }
    }
}

pub(crate) struct Session {
    manifests: Option<Manifests>,
    options: Options,
    pub(crate) config: PlanConfig,
    pub(crate) plan: Plan,
    pub(crate) masquerade_bit: u8,
}

impl Session {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let Settings { options, config, masquerade_bit } = Settings::of(scenario);
        Self { manifests: None, options, config, plan: Plan::default(), masquerade_bit }
    }

    /// Replaces the objects and plans again. A scenario's own objects must all be valid.
    pub(crate) fn step(&mut self, name: &str, objects: &str) -> &Plan {
        let snapshot = self.read(name, objects);
        self.follow(&snapshot)
    }

    /// Plans again, for facts that are already read.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) -> &Plan {
        self.plan = plan(snapshot, &self.plan, &self.config);
        &self.plan
    }

    fn read(&mut self, name: &str, objects: &str) -> Snapshot {
        let report = match &mut self.manifests {
            Some(manifests) => manifests.set_text(objects),
            None => {
                let (manifests, report) = Manifests::from_text(self.options.clone(), name, objects);
                self.manifests = Some(manifests);
                report
            }
        };
        assert!(report.problems.is_empty(), "{name}: {:?}", report.problems);
        let mut snapshot = self.manifests.as_ref().expect("just put there").snapshot();
        host::add_addresses(&mut snapshot, &node_addresses(), None);
        snapshot
    }
}

fn parse_flags(scenario: &Scenario) -> RenderFlags {
    let mut arguments = vec!["portolan".to_string(), "render".into()];
    for (flag, value) in DEFAULTS {
        if !scenario.flags.iter().any(|it| it.starts_with(flag)) {
            arguments.extend([flag.into(), value.into()]);
        }
    }
    arguments.extend(scenario.flags.iter().cloned());
    match Cli::try_parse_from(&arguments) {
        Ok(Cli { command: Command::Render(flags) }) => flags,
        Ok(_) => unreachable!("the command is render"),
        Err(error) => panic!("{}: {error}", scenario.name),
    }
}

/// All addresses of the lab's node under test, the primary ones first.
pub(crate) fn node_addresses() -> Vec<std::net::IpAddr> {
    let node = topology::by_name(topology::NODE).expect("the lab has its node");
    node.ipv4.iter().copied().map(Into::into).chain(node.ipv6.iter().copied().map(Into::into)).collect()
}

pub(crate) fn packet(line: &PacketLine) -> Packet {
    Packet {
        source: line.source.address,
        interface: line.source.interface.as_deref().map(Into::into),
        destination: line.destination.ip(),
        port: line.destination.port(),
        protocol: match line.protocol {
            WireProtocol::Tcp => Protocol::Tcp,
            WireProtocol::Udp => Protocol::Udp,
            WireProtocol::Sctp => Protocol::Sctp,
        },
        is_from_socket: line.source.is_on_node(),
    }
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

pub(crate) fn scenarios() -> Vec<Scenario> {
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let all = Scenario::all(folder()).expect("every scenario can be read");
    all.into_iter().filter(|scenario| scenario.name.contains(&wanted)).collect()
}

/// The facts of a scenario that are read so far; its steps can be repeated.
struct Reader {
    session: Session,
    story: Story,
    read: Vec<Snapshot>,
}

impl Reader {
    fn of(scenario: &Scenario) -> Arc<Mutex<Reader>> {
        static READERS: Mutex<BTreeMap<String, Arc<Mutex<Reader>>>> = Mutex::new(BTreeMap::new());
        let mut readers = READERS.lock().expect("no test panics with it");
        let reader = || {
            Arc::new(Mutex::new(Reader { session: Session::new(scenario), story: Story::default(), read: Vec::new() }))
        };
        readers.entry(scenario.name.clone()).or_insert_with(reader).clone()
    }

    fn facts(&mut self, scenario: &Scenario, rounds: usize) -> Vec<Snapshot> {
        let count = rounds * scenario.steps.len();
        let steps = scenario.steps.iter().enumerate().cycle();
        for (number, step) in steps.take(count).skip(self.read.len()) {
            if number == 0 {
                self.story = Story::default();
            }
            let mut snapshot = self.session.read(&scenario.name, &step.objects);
            self.story.follow(&mut snapshot, step);
            self.read.push(snapshot);
        }
        self.read[..count].to_vec()
    }
}

/// The facts of each step of a scenario, with the steps repeated so many times. They are the same in every mode, and
/// reading YAML is most of the work of a test without a kernel, so they are read once for all tests of a program.
pub(crate) fn facts(scenario: &Scenario, rounds: usize) -> Vec<Snapshot> {
    Reader::of(scenario).lock().expect("every scenario can be read").facts(scenario, rounds)
}

/// Runs a check on every scenario, several at a time, and reports all that fail.
pub(crate) fn for_each_scenario(workers: usize, check: impl Fn(&Scenario) -> Result<(), String> + Sync) {
    check_all(scenarios(), workers, || (), |(), scenario| check(scenario));
}

/// The same for some scenarios, with a state that each worker keeps between scenarios.
pub(crate) fn check_all<S>(
    scenarios: Vec<Scenario>,
    workers: usize,
    state: impl Fn() -> S + Sync,
    check: impl Fn(&mut S, &Scenario) -> Result<(), String> + Sync,
) {
    let total = scenarios.len();
    let failures = failures(scenarios, workers, state, check);
    assert!(failures.is_empty(), "{} of {total} scenarios fail:\n\n{}", failures.len(), failures.join("\n\n"));
}

/// Those that fail, each with its reason.
pub(crate) fn failures<S>(
    scenarios: Vec<Scenario>,
    workers: usize,
    state: impl Fn() -> S + Sync,
    check: impl Fn(&mut S, &Scenario) -> Result<(), String> + Sync,
) -> Vec<String> {
    assert!(!scenarios.is_empty(), "no scenario of that name in {}", folder().display());
    let queue = Mutex::new(scenarios);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut state = state();
                while let Some(scenario) = { queue.lock().expect("no check panics with it").pop() } {
                    if let Err(failure) = check(&mut state, &scenario) {
                        failures.lock().expect("no check panics with it").push(format!("{}: {failure}", scenario.name));
                    }
                }
            });
        }
    });
    failures.into_inner().expect("all workers are done")
}
