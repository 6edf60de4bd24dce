//! The command line.

mod names;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use portolan_config::{KubeProxyFlags, parse_duration};

pub use names::{DnsFlags, EnvironmentFlags, EnvironmentFormat, RunFlags, WhichFlags};

/// The service network of a Kubernetes node: Services become working traffic, and every packet can be explained.
#[derive(Debug, Parser)]
#[command(name = "portolan", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The service network of a Kubernetes node, in the place of kube-proxy: this is `portolan proxy`.
#[derive(Debug, Parser)]
#[command(name = "kube-proxy", args_override_self = true, max_term_width = 110)]
pub struct KubeProxyCli {
    #[command(flatten)]
    pub flags: ProxyFlags,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run: watch the cluster, or manifests, and keep the kernel's rules as they ask; takes every flag of kube-proxy
    #[command(args_override_self = true)]
    Proxy(Box<ProxyFlags>),
    /// Show what would be programmed; needs no privileges
    Render(RenderFlags),
    /// Say where a packet goes, step by step, and why
    Explain(ExplainFlags),
    /// List the Services that this node serves
    Services(ServicesFlags),
    /// Compare what the kernel holds with what it should hold; exit status 1 if they differ
    Verify(VerifyFlags),
    /// Show what would change with other manifests, as behaviour and as objects; exit status 1 if anything
    Diff(DiffFlags),
    /// Compare what Portolan would do with what kube-proxy has programmed here; exit status 1 if they differ
    Shadow(ShadowFlags),
    /// Serve the names of Services, for a cluster or for manifests, in the place of CoreDNS
    Dns(Box<DnsFlags>),
    /// Print the variables that kubelet would give to a container
    Env(EnvironmentFlags),
    /// Run a command as a container would run: with those variables, and with the names of the cluster
    Run(RunFlags),
    /// Remove everything that Portolan has programmed; with --all, what kube-proxy has programmed, too
    Cleanup(CleanupFlags),
}

/// kube-proxy's flags, with its defaults and meanings, and after them our own, which also count beside --config.
#[derive(Args, Clone, Debug)]
pub struct ProxyFlags {
    #[command(flatten)]
    pub kube_proxy: KubeProxyFlags,
    #[command(flatten)]
    pub manifests: ManifestFlags,
    /// Program nothing: compare what would be programmed with what kube-proxy has, and report the differences
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, hide_default_value = true)]
    pub shadow: bool,
    /// With --shadow: compare once, print the result and end; exit status 1 if anything differs
    #[arg(long, requires = "shadow")]
    pub once: bool,
    /// With --once: for people or for programs
    #[arg(long, short = 'o', default_value = "text", hide_default_value = true)]
    pub output: Output,
    /// Take the place of the portolan proxy that answers at the control socket: it hands its listeners over and ends
    #[arg(long)]
    pub replace: bool,
    /// Count connections, packets and bytes by Service and endpoint, for /metrics
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set)]
    pub traffic_counters: bool,
    /// Least time between two writes to the kernel [default: that of the configuration if given there, else 0s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub min_sync_period: Option<Duration>,
    /// How often the kernel is read back and compared as a whole; also the longest wait before a retry [default: that
    /// of the configuration]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub sync_period: Option<Duration>,
    /// The bit of the packet mark that means "masquerade" [default: that of the configuration]
    #[arg(long, value_name = "0-31", value_parser = clap::value_parser!(u8).range(0..32))]
    pub masquerade_bit: Option<u8>,
    /// In ipvs mode: how long an endpoint that is gone keeps connections that do not end; 0s means for ever
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s")]
    pub ipvs_drain_timeout: Duration,
    #[command(flatten)]
    pub control: ControlFlags,
    /// Serve names as well, at this address of the node (169.254.20.10 by habit; it is added to the loopback interface)
    #[arg(long, value_name = "ADDRESS[:PORT]", value_delimiter = ',')]
    pub dns: Vec<String>,
    /// With --dns: settings in YAML, the same as those of `portolan dns --config`
    #[arg(long, value_name = "FILE", requires = "dns")]
    pub dns_config: Option<PathBuf>,
}

/// Where the facts come from.
#[derive(Args, Clone, Debug)]
pub struct FactFlags {
    #[command(flatten)]
    pub manifests: ManifestFlags,
    /// The name of this node (default: the machine's host name)
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
}

/// Facts from files, and the cluster that they live in.
#[derive(Args, Clone, Debug)]
pub struct ManifestFlags {
    /// Files or directories with Services, EndpointSlices, Endpoints, Pods and Nodes, in YAML or JSON
    #[arg(long, value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub manifests: Vec<PathBuf>,
    /// Where ClusterIPs come from: one range, or one per family, comma separated
    #[arg(long, value_name = "RANGES", default_value = "10.96.0.0/16", value_delimiter = ',')]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// Where node ports come from
    #[arg(long, value_name = "FROM-TO", default_value = "30000-32767")]
    pub service_node_port_range: String,
    /// Where it is kept which Service has which address, so that a restart moves none
    #[arg(long, value_name = "DIRECTORY", default_value = "/var/lib/portolan")]
    pub state_directory: PathBuf,
}

/// How traffic is treated; the names and meanings are kube-proxy's.
#[derive(Args, Clone, Debug)]
pub struct TrafficFlags {
    /// How Services become traffic
    #[arg(long, visible_alias = "mode", default_value = "nftables")]
    pub proxy_mode: Mode,
    /// How traffic of pods is told from other traffic
    #[arg(long, default_value = "ClusterCIDR", ignore_case = true)]
    pub detect_local_mode: DetectLocalMode,
    /// The range of all pods of the cluster: one, or one per family, comma separated
    #[arg(long, value_name = "RANGES", value_delimiter = ',')]
    pub cluster_cidr: Vec<IpNet>,
    /// The bridge that pods are on, for --detect-local-mode BridgeInterface
    #[arg(long, value_name = "NAME")]
    pub pod_bridge_interface: Option<String>,
    /// How names of pods' interfaces begin, for --detect-local-mode InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX")]
    pub pod_interface_name_prefix: Option<String>,
    /// Addresses that serve node ports: ranges, or the words primary, localhost, all
    #[arg(long, value_name = "LIST", default_value = "primary", value_delimiter = ',')]
    pub nodeport_addresses: Vec<String>,
    /// Serve node ports at 127.0.0.1, too, where --nodeport-addresses includes it
    #[arg(long)]
    pub iptables_localhost_nodeports: bool,
    /// Rewrite the source address of everything sent to ClusterIPs
    #[arg(long)]
    pub masquerade_all: bool,
    /// The bit of the packet mark that means "masquerade"
    #[arg(long, value_name = "0-31", default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..32))]
    pub masquerade_bit: u8,
    /// In ipvs mode: how a virtual server picks an endpoint, unless its Service says (portolan.io/scheduler)
    #[arg(long, value_name = "NAME", default_value = "rr")]
    pub ipvs_scheduler: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Nftables,
    Iptables,
    Ipvs,
    Userspace,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Userspace => "userspace",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DetectLocalMode {
    #[value(name = "ClusterCIDR")]
    ClusterCidr,
    #[value(name = "NodeCIDR")]
    NodeCidr,
    #[value(name = "BridgeInterface")]
    BridgeInterface,
    #[value(name = "InterfaceNamePrefix")]
    InterfaceNamePrefix,
}

#[derive(Args, Clone, Debug)]
pub struct ControlFlags {
    /// Where a running `portolan proxy` answers questions
    #[arg(long, value_name = "PATH", default_value = "/run/portolan/portolan.sock")]
    pub control_socket: PathBuf,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct OutputFlags {
    /// For people or for programs
    #[arg(long, short = 'o', default_value = "text")]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    Json,
}

#[derive(Args, Clone, Debug)]
pub struct RenderFlags {
    #[command(flatten)]
    pub facts: FactFlags,
    #[command(flatten)]
    pub traffic: TrafficFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ExplainFlags {
    /// The address that the packet comes from
    pub source: IpAddr,
    /// Where it is sent: ADDRESS:PORT, with /tcp (the default), /udp or /sctp
    #[arg(value_name = "DESTINATION:PORT[/PROTOCOL]")]
    pub destination: String,
    /// The interface that it arrives on, where pods are detected by interface
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    #[command(flatten)]
    pub question: QuestionFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ServicesFlags {
    #[command(flatten)]
    pub question: QuestionFlags,
}

#[derive(Args, Clone, Debug)]
pub struct VerifyFlags {
    #[command(flatten)]
    pub question: QuestionFlags,
}

#[derive(Args, Clone, Debug)]
pub struct DiffFlags {
    /// Compare with these manifests instead of with the running node
    #[arg(long, value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub from: Vec<PathBuf>,
    #[command(flatten)]
    pub question: QuestionFlags,
}

/// With --manifests the answer is made from them alone; without, the running `portolan proxy` is asked.
#[derive(Args, Clone, Debug)]
pub struct QuestionFlags {
    #[command(flatten)]
    pub facts: FactFlags,
    #[command(flatten)]
    pub traffic: TrafficFlags,
    #[command(flatten)]
    pub control: ControlFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ShadowFlags {
    /// Read kube-proxy's rules from this output of `iptables-save` instead of from the kernel
    #[arg(long, value_name = "PATH", requires = "ip6tables_save")]
    pub iptables_save: Option<PathBuf>,
    /// The same for IPv6, from `ip6tables-save`
    #[arg(long, value_name = "PATH", requires = "iptables_save")]
    pub ip6tables_save: Option<PathBuf>,
    #[command(flatten)]
    pub facts: FactFlags,
    #[command(flatten)]
    pub traffic: TrafficFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct CleanupFlags {
    /// Remove what kube-proxy has programmed as well, in every mode
    #[arg(long, conflicts_with = "after_kube_proxy")]
    pub all: bool,
    /// First wait until kube-proxy serves this node's Services again, so that no moment is without rules
    #[arg(long)]
    pub after_kube_proxy: bool,
    /// How long to wait for kube-proxy
    #[arg(long, default_value = "5m", value_parser = parse_duration, requires = "after_kube_proxy")]
    pub timeout: Duration,
    #[command(flatten)]
    pub output: OutputFlags,
}
