//! What a node needs besides rules: size and timeouts of the connection table, and the process's OOM score.
//!
//! Services work without any of it, so a failure is logged and the rest continues.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use portolan_kernel::IS_LINUX;
use portolan_kernel::conntrack::Conntrack;
use portolan_model::{Family, Snapshot};
use portolan_plan::{Plan, PlanConfig, plan};

use crate::loopback::LoopbackRouting;
use crate::settings::{ConntrackSettings, Settings};

/// kube-proxy's upper limit for the connection table, whatever the number of processors.
const LARGEST_TABLE: u64 = 1 << 20;
const UDP: u8 = 17;
/// Exists if connection tracking is loaded.
const CONNTRACK_MAX: &str = "proc/sys/net/netfilter/nf_conntrack_max";
/// The table's buckets must be at least a quarter of its entries.
const ENTRIES_PER_BUCKET: u64 = 4;

/// What became of the setup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The kernel has no connection tracking yet: the first rules load it, and the setup is repeated after them.
    Waiting,
    /// Something could not be set, and repeating does not help.
    Failed,
}

/// Applies the settings and logs what failed.
pub fn apply(settings: &Settings) -> Outcome {
    // Elsewhere there is no connection table to set up, and no OOM score.
    if !IS_LINUX {
        return Outcome::Done;
    }
    let machine = Machine::default();
    let tuned = machine.tune_conntrack(&settings.conntrack);
    let is_waiting = tuned == Err(Untuned::NoConntrack);
    let mut problems = if let Err(Untuned::Failed(problems)) = tuned { problems } else { Vec::new() };
    // Only the rules make this safe, so that otherwise the run loop does it, after them. A daemon without the privilege
    // depends on the init container.
    if settings.actions.init_only && serves_loopback(&settings.traffic.plan) {
        let allowed = LoopbackRouting::beside(&settings.control_socket).allow();
        problems.extend(allowed.err().map(|error| format!("{error:#}")));
    }
    problems.iter().for_each(|problem| tracing::error!("{problem}"));
    // As in kube-proxy, this is no failure: it needs another privilege, and a unit or pod can set it, too.
    let last = machine.protect_from_out_of_memory(settings.oom_score_adj.into());
    last.iter().for_each(|problem| tracing::warn!("{problem}"));
    match (problems.is_empty(), is_waiting) {
        (false, _) => Outcome::Failed,
        (true, true) => Outcome::Waiting,
        (true, false) => Outcome::Done,
    }
}

/// Why connection tracking is not as configured.
#[derive(Debug, PartialEq, Eq)]
pub enum Untuned {
    NoConntrack,
    Failed(Vec<String>),
}

/// Whether node ports are served at 127.0.0.1, on whatever node.
fn serves_loopback(config: &PlanConfig) -> bool {
    plan(&Snapshot::default(), &Plan::default(), config).node.family(Family::V4).loopback_node_ports
}

/// The root of /proc and /sys.
pub struct Machine {
    root: PathBuf,
    load_conntrack: Box<dyn Fn()>,
}

impl Default for Machine {
    fn default() -> Self {
        Self { root: "/".into(), load_conntrack: Box::new(load_conntrack) }
    }
}

/// Any request to the subsystem makes the kernel load its module, if there is one.
fn load_conntrack() {
    let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let requested = Conntrack::open().and_then(|mut conntrack| conntrack.find(UDP, nowhere, nowhere).map(drop));
    requested.unwrap_or_else(|error| tracing::debug!("loading connection tracking: {error}"));
}

/// A file of the kernel and the value it should have.
#[derive(Debug, PartialEq, Eq)]
struct Sysctl {
    file: String,
    value: i64,
    is_least: bool,
}

impl Machine {
    /// With another root, and a function that loads connection tracking there.
    pub fn at(root: &Path, load_conntrack: impl Fn() + 'static) -> Self {
        Self { root: root.into(), load_conntrack: Box::new(load_conntrack) }
    }

    /// Sets the values that differ.
    pub fn tune_conntrack(&self, settings: &ConntrackSettings) -> Result<(), Untuned> {
        let sysctls = conntrack_sysctls(settings, self.processors());
        if !sysctls.is_empty() && !self.has_conntrack() {
            (self.load_conntrack)();
            if !self.has_conntrack() {
                return Err(Untuned::NoConntrack);
            }
        }
        let failed = sysctls.iter().filter_map(|sysctl| self.apply(sysctl).err());
        let problems: Vec<String> = failed.map(|error| format!("{error:#}")).collect();
        if problems.is_empty() { Ok(()) } else { Err(Untuned::Failed(problems)) }
    }

    fn has_conntrack(&self) -> bool {
        self.root.join(CONNTRACK_MAX).exists()
    }

    pub fn protect_from_out_of_memory(&self, score: i64) -> Vec<String> {
        let sysctl = Sysctl { file: "proc/self/oom_score_adj".into(), value: score, is_least: false };
        let with_advice =
            |error| format!("{error:#}; it needs CAP_SYS_RESOURCE, and the kubelet or a unit can set it, too");
        self.set(&sysctl).err().map(with_advice).into_iter().collect()
    }

    fn apply(&self, sysctl: &Sysctl) -> anyhow::Result<()> {
        let advice = "set it from outside, or run `portolan proxy --init-only` once in a privileged container";
        self.set(sysctl).map_err(|error| anyhow!("{error:#}; {advice}"))
    }

    fn set(&self, sysctl: &Sysctl) -> anyhow::Result<()> {
        let path = self.root.join(&sysctl.file);
        let now = read_number(&path)?;
        if now == sysctl.value || (sysctl.is_least && now > sysctl.value) {
            return Ok(());
        }
        tracing::info!("setting {} from {now} to {}", path.display(), sysctl.value);
        fs::write(&path, sysctl.value.to_string())
            .with_context(|| format!("setting {} from {now} to {}", path.display(), sysctl.value))
    }

    /// The processors of the machine, not only those that this process may use.
    fn processors(&self) -> u64 {
        let listed = fs::read_to_string(self.root.join("sys/devices/system/cpu/online"));
        let counted = listed.map_err(anyhow::Error::from).and_then(|list| count_processors(&list));
        counted.unwrap_or_else(|_| std::thread::available_parallelism().map_or(1, |count| count.get() as u64))
    }
}

fn conntrack_sysctls(settings: &ConntrackSettings, processors: u64) -> Vec<Sysctl> {
    let file = |name: &str| format!("proc/sys/net/netfilter/nf_conntrack_{name}");
    let mut sysctls = Vec::new();
    if let Some(entries) = table_size(settings, processors) {
        let buckets = (entries / ENTRIES_PER_BUCKET) as i64;
        // A larger value was set on purpose.
        sysctls.push(Sysctl { file: CONNTRACK_MAX.into(), value: entries as i64, is_least: true });
        let hash_size = "sys/module/nf_conntrack/parameters/hashsize".into();
        sysctls.push(Sysctl { file: hash_size, value: buckets, is_least: true });
    }
    if settings.be_liberal {
        sysctls.push(Sysctl { file: file("tcp_be_liberal"), value: 1, is_least: false });
    }
    let timeouts = [
        ("tcp_timeout_established", settings.tcp_established),
        ("tcp_timeout_close_wait", settings.tcp_close_wait),
        ("udp_timeout", settings.udp),
        ("udp_timeout_stream", settings.udp_stream),
    ];
    let set = timeouts.into_iter().filter_map(|(name, time)| Some((name, time?.as_secs())));
    sysctls.extend(set.map(|(name, time)| Sysctl { file: file(name), value: time as i64, is_least: false }));
    sysctls
}

fn table_size(settings: &ConntrackSettings, processors: u64) -> Option<u64> {
    let scaled = u64::from(settings.max_per_core?).saturating_mul(processors);
    Some(if scaled > LARGEST_TABLE { LARGEST_TABLE } else { scaled.max(settings.min.into()) })
}

/// Parses the kernel's format for CPU lists: `0-3,8,10-11`.
fn count_processors(list: &str) -> anyhow::Result<u64> {
    let mut count = 0;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u64, u64) = (first.parse()?, last.parse()?);
        if last < first {
            bail!("{part:?} is not a range of processors");
        }
        count += last - first + 1;
    }
    Ok(count)
}

fn read_number(path: &Path) -> anyhow::Result<i64> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    text.trim().parse().with_context(|| format!("{} holds {text:?}, which is not a number", path.display()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Machine) {
        let directory = tempfile::tempdir().unwrap();
        for (file, content) in files {
            let path = directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let machine = Machine::at(directory.path(), || ());
        (directory, machine)
    }

    const DEFAULTS: ConntrackSettings = ConntrackSettings {
        max_per_core: Some(32_768),
        min: 131_072,
        tcp_established: Some(Duration::from_secs(86_400)),
        tcp_close_wait: Some(Duration::from_secs(3_600)),
        be_liberal: false,
        udp: None,
        udp_stream: None,
    };

    #[test]
    fn the_table_grows_with_processors_between_its_bounds() {
        let size = |processors| table_size(&DEFAULTS, processors);
        assert_eq!([size(1), size(2), size(8), size(64)], [Some(131_072), Some(131_072), Some(262_144), Some(1 << 20)]);
        assert_eq!(table_size(&ConntrackSettings { max_per_core: None, ..DEFAULTS }, 8), None);
        let huge = ConntrackSettings { min: 5_000_000, ..DEFAULTS };
        assert_eq!((table_size(&huge, 2), table_size(&huge, 64)), (Some(5_000_000), Some(1 << 20)));
    }

    #[test]
    fn processors_are_counted_as_the_kernel_lists_them() {
        assert_eq!(count_processors("0-3,8,10-11\n").unwrap(), 7);
        assert_eq!(count_processors("0").unwrap(), 1);
        assert!(count_processors("").is_err() && count_processors("3-1").is_err());
    }

    #[test]
    fn what_is_set_already_is_not_written_and_the_rest_is() {
        let (directory, machine) = machine(&[
            ("sys/devices/system/cpu/online", "0-7"),
            ("proc/sys/net/netfilter/nf_conntrack_max", "65536\n"),
            ("sys/module/nf_conntrack/parameters/hashsize", "1000000"),
            ("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", "432000"),
            ("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait", "3600\n"),
        ]);
        assert_eq!(machine.tune_conntrack(&DEFAULTS), Ok(()));
        let read = |file: &str| fs::read_to_string(directory.path().join(file)).unwrap();
        assert_eq!(read("proc/sys/net/netfilter/nf_conntrack_max"), "262144");
        assert_eq!(read("sys/module/nf_conntrack/parameters/hashsize"), "1000000");
        assert_eq!(read("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established"), "86400");
        assert_eq!(read("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait"), "3600\n");
    }

    #[test]
    fn a_failure_names_the_file_and_the_others_are_still_set() {
        let (directory, machine) = machine(&[
            (CONNTRACK_MAX, "65536"),
            ("proc/sys/net/netfilter/nf_conntrack_udp_timeout", "30"),
            ("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established", "nonsense"),
        ]);
        let settings = ConntrackSettings {
            max_per_core: None,
            tcp_established: Some(Duration::from_secs(5)),
            tcp_close_wait: None,
            udp: Some(Duration::from_secs(10)),
            ..DEFAULTS
        };
        let Err(Untuned::Failed(problems)) = machine.tune_conntrack(&settings) else { panic!("one value is broken") };
        assert_eq!(problems.len(), 1);
        assert!(problems[0].contains("tcp_timeout_established") && problems[0].contains("nonsense"), "{problems:?}");
        let udp = directory.path().join("proc/sys/net/netfilter/nf_conntrack_udp_timeout");
        assert_eq!(fs::read_to_string(udp).unwrap(), "10");
    }

    /// An init container runs before any rule that would load the module.
    #[test]
    fn without_conntrack_the_module_is_loaded_or_the_setup_waits() {
        let timeouts = ConntrackSettings { max_per_core: None, ..DEFAULTS };
        let (directory, absent) = machine(&[("sys/devices/system/cpu/online", "0-7")]);
        assert_eq!(absent.tune_conntrack(&timeouts), Err(Untuned::NoConntrack));
        let folder = directory.path().join("proc/sys/net/netfilter");
        let loaded = Machine::at(directory.path(), move || {
            fs::create_dir_all(&folder).unwrap();
            for (file, value) in [("max", "1"), ("tcp_timeout_established", "9"), ("tcp_timeout_close_wait", "9")] {
                fs::write(folder.join(format!("nf_conntrack_{file}")), value).unwrap();
            }
        });
        assert_eq!(loaded.tune_conntrack(&timeouts), Ok(()));
        let set = directory.path().join("proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established");
        assert_eq!(fs::read_to_string(set).unwrap(), "86400");
    }
}
