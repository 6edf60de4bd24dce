//! The lab, the daemon in it and its files. Whatever ends the demo, nothing is left behind.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use portolan_dataplane::mode::Mode;
use portolan_dataplane::modes;
use portolan_kernel::nftables::Nftables;
use portolan_kernel::signal::TerminationSignals;
use portolan_testkit::{Lab, Outcome, Protocol, Source, remove_cgroup, topology};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const TIMEOUT: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The daemon is stopped before the lab is removed.
pub(crate) struct Stage {
    leftovers: Arc<Mutex<Leftovers>>,
    pub(crate) lab: Lab,
    pub(crate) mode: &'static dyn Mode,
    binary: PathBuf,
    folder: PathBuf,
}

/// Removed when the demo ends. The kernel removes the namespaces.
#[derive(Default)]
struct Leftovers {
    daemon: Option<Child>,
    folder: Option<TempDir>,
    cgroup: Option<PathBuf>,
}

/// `make demo MODE=iptables` shows that mode.
fn mode() -> anyhow::Result<&'static dyn Mode> {
    let name = std::env::var("MODE").unwrap_or_default();
    let names: Vec<&str> = modes::ALL.iter().map(|mode| mode.name()).collect();
    let mode = if name.is_empty() { Some(modes::default()) } else { modes::named(&name) };
    let mode = mode.with_context(|| format!("MODE={name} is not a mode: write {}", names.join(", ")))?;
    if let Some(missing) = mode.missing() {
        bail!("MODE={name}: {missing}; `make test-vm` runs every mode in a VM, and docs/ shows what they look like");
    }
    Ok(mode)
}

/// A mode with hooks has a cgroup for them.
fn lab(mode: &dyn Mode) -> anyhow::Result<Lab> {
    Ok(if mode.limits().at_connect { Lab::with_cgroup()? } else { Lab::new()? })
}

impl Stage {
    /// Builds the lab and starts the daemon on copies of the example manifests.
    pub(crate) fn set(binary: PathBuf, signals: TerminationSignals) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("portolan-demo-").tempdir().context("making a folder")?;
        let path = folder.path().to_owned();
        let leftovers = Arc::new(Mutex::new(Leftovers { daemon: None, folder: Some(folder), cgroup: None }));
        leave_on_signal(signals, &leftovers);
        copy_manifests(&path.join("manifests"))?;
        let mode = mode()?;
        let stage = Self { leftovers, lab: lab(mode)?, mode, binary, folder: path };
        stage.leftovers().cgroup = stage.lab.cgroup().map(Path::to_owned);
        stage.leftovers().daemon = Some(stage.start_daemon()?);
        stage.wait("the daemon to program the kernel", || Ok(stage.is_verified()?.then_some(())))?;
        Ok(stage)
    }

    fn start_daemon(&self) -> anyhow::Result<Child> {
        let log = File::create(self.log()).context("making the log")?;
        let mut command = self.portolan(&["proxy", "-v", "2", "--hostname-override", "node-a"]);
        command.args(["--cluster-cidr", "10.244.0.0/16", "--control-socket"]).arg(self.socket());
        command.arg("--state-directory").arg(self.folder.join("state"));
        command.arg("--manifests").arg(self.folder.join("manifests"));
        command.args(["--proxy-mode", self.mode.name(), "--min-sync-period=0s", "--sync-period=1s"]);
        // Hooks at the root would concern every process of this machine.
        command.args(self.lab.cgroup().map(|cgroup| format!("--ebpf-cgroup={}", cgroup.display())));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let started = self.lab.host(topology::NODE).run(|| command.spawn());
        started.with_context(|| format!("starting {}", self.binary.display()))
    }

    /// Sends SIGTERM to the daemon and waits until it has ended.
    pub(crate) fn stop_daemon(&self) -> anyhow::Result<()> {
        let Some(mut daemon) = self.leftovers().daemon.take() else { return Ok(()) };
        let process = Pid::from_child(&daemon);
        kill_process(process, Signal::TERM).context("stopping the daemon")?;
        let status = daemon.wait()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }

    fn leftovers(&self) -> MutexGuard<'_, Leftovers> {
        self.leftovers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn portolan(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments);
        command
    }

    /// Runs a command on the node, visible to the viewer, and returns its exit status.
    pub(crate) fn show(&self, arguments: &[&str]) -> anyhow::Result<i32> {
        let mut command = self.portolan(arguments);
        if arguments[0] != "cleanup" {
            command.arg("--control-socket").arg(self.socket());
        }
        let status = self.lab.host(topology::NODE).run(|| command.status());
        let status = status.with_context(|| format!("running portolan {}", arguments.join(" ")))?;
        status.code().context("portolan was killed")
    }

    /// A Service port, as `portolan services --output json` has it.
    pub(crate) fn service(&self, service: &str) -> anyhow::Result<serde_json::Value> {
        let mut command = self.portolan(&["services", "--output", "json", "--control-socket"]);
        command.arg(self.socket());
        let output = self.lab.host(topology::NODE).run(|| command.output())?;
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let mut rows = answer["services"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["service"] == service).cloned();
        row.with_context(|| format!("{service} is not in {answer}"))
    }

    /// The ClusterIP and port of a Service.
    pub(crate) fn cluster_ip(&self, service: &str) -> anyhow::Result<SocketAddr> {
        let row = self.service(service)?;
        let frontend = row["frontends"].as_array().and_then(|them| them.first()).and_then(|it| it.as_str());
        let address = frontend.and_then(|text| text.rsplit(' ').next()?.split('/').next()?.parse().ok());
        address.with_context(|| format!("{service} has no ClusterIP in {row}"))
    }

    fn is_verified(&self) -> anyhow::Result<bool> {
        let mut command = self.portolan(&["verify", "--control-socket"]);
        command.arg(self.socket()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(self.lab.host(topology::NODE).run(|| command.status())?.success())
    }

    /// Rewrites a manifest in one step, as an editor does.
    fn edit(&self, name: &str, change: impl FnOnce(&str) -> String) -> anyhow::Result<()> {
        let path = self.folder.join("manifests").join(name);
        let draft = path.with_extension("draft");
        fs::write(&draft, change(&fs::read_to_string(&path)?))?;
        fs::rename(&draft, &path).with_context(|| format!("editing {}", path.display()))
    }

    /// Returns the time at which the daemon has applied an edit of its manifests.
    pub(crate) fn edited(&self, name: &str, change: impl FnOnce(&str) -> String) -> anyhow::Result<Instant> {
        let writes = || fs::read_to_string(self.log()).map(|log| log.matches("wrote ").count());
        let before = writes()?;
        self.edit(name, change)?;
        self.wait("the daemon to apply the edit", || Ok((writes()? > before).then(Instant::now)))
    }

    /// The times of the next `how_often` changes of the kernel's rules, while `action` runs.
    pub(crate) fn kernel_changes(
        &self,
        how_often: usize,
        action: impl FnOnce() -> anyhow::Result<()> + Send,
    ) -> anyhow::Result<Vec<Instant>> {
        let mut tables = self.lab.host(topology::NODE).run(Nftables::open)?;
        let mut generation = tables.generation()?;
        let mut changes = Vec::new();
        std::thread::scope(|scope| {
            let action = scope.spawn(action);
            let deadline = Instant::now() + TIMEOUT;
            while changes.len() < how_often {
                let now = tables.generation()?;
                let count = now.wrapping_sub(generation) as usize;
                changes.extend(std::iter::repeat_n(Instant::now(), count));
                generation = now;
                ensure!(Instant::now() < deadline, "the kernel's rules did not change within {TIMEOUT:?}");
                std::thread::yield_now();
            }
            action.join().expect("the action does not panic")
        })?;
        self.wait("the kernel to match the plan", || Ok(self.is_verified()?.then_some(())))?;
        Ok(changes)
    }

    /// Connects many times and counts the answers by host.
    pub(crate) fn connect(&self, from: &str, to: SocketAddr, times: usize) -> anyhow::Result<BTreeMap<String, usize>> {
        let mut answers = BTreeMap::new();
        for _ in 0..times {
            match self.connect_once(from, to)? {
                Outcome::Answered { by, .. } => *answers.entry(by).or_default() += 1,
                other => bail!("a connection from {from} to {to} failed: {other:?}"),
            }
        }
        Ok(answers)
    }

    /// The client's address, as the endpoint sees it.
    pub(crate) fn seen_source(&self, from: &str, to: SocketAddr) -> anyhow::Result<IpAddr> {
        match self.connect_once(from, to)? {
            Outcome::Answered { seen_source, .. } => Ok(seen_source),
            other => bail!("a connection from {from} to {to} failed: {other:?}"),
        }
    }

    pub(crate) fn connect_once(&self, from: &str, to: SocketAddr) -> anyhow::Result<Outcome> {
        let source = Source::parse(from, to.ip()).map_err(anyhow::Error::msg)?;
        Ok(self.lab.probe(&source, to, Protocol::Tcp, TIMEOUT))
    }

    /// The last line of the daemon's log that contains a text, without its time.
    pub(crate) fn log_line(&self, text: &str) -> Option<String> {
        let log = fs::read_to_string(self.log()).ok()?;
        let line = log.lines().rfind(|line| line.contains(text))?;
        line.split_once(' ').map(|(_, rest)| rest.trim().to_owned())
    }

    fn wait<T>(&self, what: &str, look: impl Fn() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                bail!("waited {TIMEOUT:?} for {what}; the daemon's log:\n{log}");
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("control.sock")
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            _ = daemon.kill();
            _ = daemon.wait();
        }
        drop(self.folder.take());
        if let Some(cgroup) = self.cgroup.take() {
            remove_cgroup(&cgroup);
        }
    }
}

/// Ctrl-C ends the demo at once, and removes everything.
fn leave_on_signal(signals: TerminationSignals, leftovers: &Arc<Mutex<Leftovers>>) {
    let leftovers = Arc::downgrade(leftovers);
    std::thread::spawn(move || {
        signals.wait();
        if let Some(leftovers) = leftovers.upgrade() {
            let mut leftovers = leftovers.lock().unwrap_or_else(PoisonError::into_inner);
            *leftovers = Leftovers::default();
        }
        eprintln!("\ninterrupted; nothing is left behind");
        std::process::exit(130);
    });
}

fn copy_manifests(to: &Path) -> anyhow::Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(&from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
