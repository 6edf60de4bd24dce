//! Everything that the daemon needs to know, typed and checked, from flags and file.

use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ipnet::IpNet;
use portolan_config::{
    AskedMode, Document, Flag, Given, Notice, Read, Value, from_file, from_flags, is_on, parse_range,
};
use portolan_dataplane::ipvs::IpvsSettings;
use portolan_kernel::ipvs::Timeouts;
use portolan_plan::{AddressSelector, DetectLocal, PlanConfig};
use portolan_source::Options;
use portolan_source::cluster::Names;

use crate::config::{self, Keep};
use crate::dns::DnsSettings;
use crate::flags::{Mode, OutputFlags, ProxyFlags};
use crate::ipvs::IpvsChoices;
use crate::log::LogSettings;
use crate::mode;
use crate::modes::ModeSettings;

/// A ConfigMap holds no more either.
const LARGEST_FILE: u64 = 1024 * 1024;

#[derive(Clone, Debug)]
pub struct Settings {
    pub facts: Facts,
    pub plan: PlanConfig,
    /// What was asked for, and what runs.
    pub asked_mode: AskedMode,
    pub mode: Mode,
    pub masquerade_bit: u8,
    pub min_sync_period: Duration,
    pub sync_period: Duration,
    pub conntrack: ConntrackSettings,
    pub oom_score_adj: i32,
    /// The node's primary address instead of what the Node object says.
    pub bind_address: Option<IpAddr>,
    pub healthz: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub bind_hard_fail: bool,
    pub profiling: bool,
    /// Program nothing; compare with what kube-proxy has programmed.
    pub shadow: bool,
    /// In shadow mode: compare once, and show the result so.
    pub once: Option<OutputFlags>,
    pub traffic_counters: bool,
    /// Names served beside the rules.
    pub dns: Option<DnsSettings>,
    /// How long a UDP client of userspace mode may be idle.
    pub udp_idle: Duration,
    pub ipvs: IpvsChoices,
    /// Take the place of the daemon that answers at the control socket.
    pub replace: bool,
    pub actions: Actions,
    pub control_socket: PathBuf,
    pub config_file: Option<PathBuf>,
    pub log: LogSettings,
    /// The configuration in force as kube-proxy writes it, for /configz.
    pub document: serde_json::Value,
    /// Every flag with its value, for /flagz.
    pub flags: Vec<(String, String)>,
    /// To be logged once the log has started.
    pub notices: Vec<Notice>,
    yaml: String,
    source: ProxyFlags,
}

/// Where the facts come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Facts {
    Manifests(Options),
    Cluster(ClusterSettings),
}

#[derive(Clone, Debug, PartialEq)]
pub struct ClusterSettings {
    /// Without this and without `master` the pod's service account is used.
    pub kubeconfig: Option<PathBuf>,
    pub master: Option<String>,
    pub content_type_json: bool,
    /// Requests per second; negative means without limit.
    pub qps: f32,
    pub burst: u32,
    pub node_name: String,
    /// What is watched for DNS.
    pub names: Names,
}

/// Limits and timeouts of the kernel's connection table; `None` leaves the kernel's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConntrackSettings {
    pub max_per_core: Option<u32>,
    pub min: u32,
    pub tcp_established: Option<Duration>,
    pub tcp_close_wait: Option<Duration>,
    pub be_liberal: bool,
    pub udp: Option<Duration>,
    pub udp_stream: Option<Duration>,
}

/// What to do instead of running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    pub cleanup: bool,
    pub init_only: bool,
    pub write_config_to: Option<PathBuf>,
}

impl Settings {
    /// Reads flags and file, and checks all that they say.
    pub fn read(flags: &ProxyFlags) -> anyhow::Result<Self> {
        let given = &flags.kube_proxy.0;
        let config_file = given.text("config").map(PathBuf::from);
        let read = match &config_file {
            Some(path) => from_file(&path.display().to_string(), &text_of(path)?, given)?,
            None => from_flags(given)?,
        };
        Self::resolve(flags, read, config_file)
    }

    fn resolve(flags: &ProxyFlags, read: Read, config_file: Option<PathBuf>) -> anyhow::Result<Self> {
        let Read { document, mut notices, serves_health, serves_metrics } = read;
        let given = &flags.kube_proxy.0;
        let asked_mode = document.mode();
        let (mode, mode_notice) = mode::chosen(asked_mode);
        notices.extend(mode_notice);
        let is_takeover = config_file.is_some() || flags.manifests.manifests.is_empty();
        let (plan, plan_notices) = plan_config(&document, is_takeover, mode);
        notices.extend(plan_notices);
        let socket = |path: &str| document.text(path).parse().with_context(|| document.place(path));
        Ok(Self {
            facts: facts(flags, &document)?,
            plan,
            asked_mode,
            mode,
            masquerade_bit: flags.masquerade_bit.unwrap_or_else(|| masquerade_bit(&document)),
            min_sync_period: flags.min_sync_period.unwrap_or_else(|| min_sync_period(&document, mode)),
            sync_period: flags.sync_period.unwrap_or_else(|| document.span(&document.of_mode("syncPeriod")).duration()),
            conntrack: conntrack(&document),
            oom_score_adj: document.integer("oomScoreAdj") as i32,
            bind_address: document.bind_address(),
            healthz: if serves_health { Some(socket("healthzBindAddress")?) } else { None },
            metrics: if serves_metrics { Some(socket("metricsBindAddress")?) } else { None },
            bind_hard_fail: document.boolean("bindAddressHardFail"),
            profiling: document.boolean("enableProfiling"),
            shadow: flags.shadow,
            once: flags.once.then_some(OutputFlags { output: flags.output }),
            traffic_counters: flags.traffic_counters,
            dns: DnsSettings::beside_rules(&flags.dns, flags.dns_config.as_deref())?,
            udp_idle: udp_idle(given),
            ipvs: ipvs(&document, flags.ipvs_drain_timeout),
            replace: flags.replace,
            actions: Actions {
                cleanup: given.boolean("cleanup"),
                init_only: given.boolean("init-only"),
                write_config_to: given.text("write-config-to").map(PathBuf::from),
            },
            control_socket: flags.control.control_socket.clone(),
            config_file,
            log: LogSettings::of(&document),
            flags: given.effective(),
            yaml: document.to_yaml(),
            source: flags.clone(),
            document: document.to_json(),
            notices,
        })
    }

    /// The same flags with the file as it is now. After an error the old settings stay in force.
    pub fn read_again(&self) -> anyhow::Result<Self> {
        Self::read(&self.source)
    }

    /// The configuration in force as a file.
    pub fn to_yaml(&self) -> &str {
        &self.yaml
    }

    /// How manifests are read when a question brings its own. In a cluster, it is asked what they would change here.
    pub(crate) fn manifest_options(&self) -> Options {
        match &self.facts {
            Facts::Manifests(options) => options.clone(),
            Facts::Cluster(cluster) => Options { node_name: cluster.node_name.clone(), ..Options::default() },
        }
    }

    pub(crate) fn mode_settings(&self) -> ModeSettings {
        let Self { mode, masquerade_bit, traffic_counters, udp_idle, .. } = *self;
        ModeSettings { mode, masquerade_bit, traffic_counters, udp_idle, ipvs: self.ipvs.clone() }
    }

    pub fn node_name(&self) -> &str {
        match &self.facts {
            Facts::Manifests(options) => &options.node_name,
            Facts::Cluster(cluster) => &cluster.node_name,
        }
    }
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let attempt = || format!("reading the configuration file {}", path.display());
    let mut text = String::new();
    let file = File::open(path).with_context(attempt)?;
    file.take(LARGEST_FILE + 1).read_to_string(&mut text).with_context(attempt)?;
    ensure!(text.len() as u64 <= LARGEST_FILE, "{}: it is larger than {LARGEST_FILE} bytes", attempt());
    Ok(text)
}

fn facts(flags: &ProxyFlags, document: &Document) -> anyhow::Result<Facts> {
    let node_name = match document.text("hostnameOverride") {
        "" => config::node_name(None)?,
        name => config::node_name(Some(name))?,
    };
    if !flags.manifests.manifests.is_empty() {
        return Ok(Facts::Manifests(config::manifest_options(&flags.manifests, node_name, Keep::Allocations)?));
    }
    let kubeconfig = Some(document.text("clientConnection.kubeconfig")).filter(|path| !path.is_empty());
    Ok(Facts::Cluster(ClusterSettings {
        kubeconfig: kubeconfig.map(PathBuf::from),
        master: flags.kube_proxy.0.text("master").map(str::to_owned),
        content_type_json: document.text("clientConnection.contentType").contains("json"),
        qps: document.number("clientConnection.qps") as f32,
        burst: u32::try_from(document.integer("clientConnection.burst")).unwrap_or(0),
        names: if flags.dns.is_empty() { Names::None } else { Names::OfServices },
        node_name,
    }))
}

/// ipvs mode has no bit of its own and uses that of iptables.
fn masquerade_bit(document: &Document) -> u8 {
    let section = if document.mode().section() == "nftables" { "nftables" } else { "iptables" };
    u8::try_from(document.integer(&format!("{section}.masqueradeBit"))).unwrap_or(14)
}

/// kube-proxy's default of a second spares it work that we have in iptables mode only.
fn min_sync_period(document: &Document, mode: Mode) -> Duration {
    let path = document.of_mode("minSyncPeriod");
    let counts = mode == Mode::Iptables || document.is_given(&path);
    if counts { document.span(&path).duration() } else { Duration::ZERO }
}

fn conntrack(document: &Document) -> ConntrackSettings {
    let count = |path: &str| u32::try_from(document.integer(path)).unwrap_or(0);
    let span = |path: &str| Some(document.span(path).duration()).filter(|it| !it.is_zero());
    ConntrackSettings {
        max_per_core: Some(count("conntrack.maxPerCore")).filter(|it| *it > 0),
        min: count("conntrack.min"),
        tcp_established: span("conntrack.tcpEstablishedTimeout"),
        tcp_close_wait: span("conntrack.tcpCloseWaitTimeout"),
        be_liberal: document.boolean("conntrack.tcpBeLiberal"),
        udp: span("conntrack.udpTimeout"),
        udp_stream: span("conntrack.udpStreamTimeout"),
    }
}

fn ipvs(document: &Document, drain_timeout: Duration) -> IpvsChoices {
    let seconds = |path: &str| u32::try_from(document.span(path).duration().as_secs()).unwrap_or(u32::MAX);
    IpvsChoices {
        scheduler: document.text("ipvs.scheduler").to_owned(),
        machine: IpvsSettings {
            strict_arp: document.boolean("ipvs.strictARP"),
            timeouts: Timeouts {
                tcp: seconds("ipvs.tcpTimeout"),
                tcp_fin: seconds("ipvs.tcpFinTimeout"),
                udp: seconds("ipvs.udpTimeout"),
            },
        },
        excluded: document.list("ipvs.excludeCIDRs").iter().filter_map(|text| parse_range(text)).collect(),
        drain_timeout: Some(drain_timeout).filter(|it| !it.is_zero()),
    }
}

/// What is not given is the default of kube-proxy's userspace mode of old.
fn udp_idle(given: &Given) -> Duration {
    let flag = Flag::named("udp-timeout").expect("a test looks it up");
    match given.value(flag.name).cloned().unwrap_or_else(|| flag.default_value()) {
        Value::Duration(span) => span.duration(),
        _ => Duration::ZERO,
    }
}

fn plan_config(document: &Document, is_takeover: bool, mode: Mode) -> (PlanConfig, Option<Notice>) {
    let section = if document.mode().section() == "nftables" { "nftables" } else { "iptables" };
    let (node_port_addresses, notice) = node_port_addresses(document, is_takeover);
    let plan = PlanConfig {
        detect_local: detect_local(document),
        masquerade_all: document.boolean(&format!("{section}.masqueradeAll")),
        node_port_addresses,
        loopback_node_ports: is_iptables(document, is_takeover) && document.boolean("iptables.localhostNodePorts"),
        allow_external_ips: is_on(document.gates(), "AllowServiceExternalIPs"),
        relayed: mode == Mode::Userspace,
        virtual_servers: mode == Mode::Ipvs,
    };
    (plan, notice)
}

/// Whether kube-proxy would run in iptables mode: asked for or by default.
fn is_iptables(document: &Document, is_takeover: bool) -> bool {
    match document.mode() {
        AskedMode::Unset => is_takeover,
        mode => mode == AskedMode::Iptables,
    }
}

/// Where kube-proxy would serve node ports in the mode that was asked for, so that taking over closes none. Where no
/// kube-proxy can have been, among manifests, no mode means nftables in this too.
fn node_port_addresses(document: &Document, is_takeover: bool) -> (Vec<AddressSelector>, Option<Notice>) {
    let items = document.list("nodePortAddresses");
    let selectors = items.iter().filter_map(|item| match item.as_str() {
        "primary" => Some(AddressSelector::Primary),
        "localhost" => Some(AddressSelector::Localhost),
        "all" => Some(AddressSelector::All),
        range => parse_range(range).map(AddressSelector::Range),
    });
    let is_everywhere = match document.mode() {
        AskedMode::Unset => is_takeover,
        mode => mode.serves_node_ports_everywhere(),
    };
    match items {
        [] if is_everywhere => (vec![AddressSelector::All], Some(everywhere(document))),
        [] => (vec![AddressSelector::Primary], None),
        _ => (selectors.collect(), None),
    }
}

fn everywhere(document: &Document) -> Notice {
    let mode = match document.mode() {
        AskedMode::Unset => "no mode".to_owned(),
        mode => format!("mode {}", mode.name()),
    };
    Notice::info(format!(
        "nodePortAddresses is empty and {mode} was asked for, so node ports are served at all addresses of this node, \
         as in kube-proxy; nodePortAddresses: [primary] serves them at the node's own addresses only"
    ))
}

fn detect_local(document: &Document) -> DetectLocal {
    let name = |path: &str| document.text(path).into();
    match document.text("detectLocalMode").to_ascii_lowercase().as_str() {
        "nodecidr" => DetectLocal::NodeRange,
        "bridgeinterface" => DetectLocal::BridgeInterface(name("detectLocal.bridgeInterface")),
        "interfacenameprefix" => DetectLocal::InterfacePrefix(name("detectLocal.interfaceNamePrefix")),
        _ => DetectLocal::ClusterRange(cluster_ranges(document.text("clusterCIDR"))),
    }
}

fn cluster_ranges(text: &str) -> Vec<IpNet> {
    text.split(',').filter_map(|part| parse_range(part.trim())).collect()
}
