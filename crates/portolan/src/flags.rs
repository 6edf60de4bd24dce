//! The command line.

mod balancing;
mod modes;
mod names;
mod tools;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;
use portolan_config::{KubeProxyFlags, TrafficFlags, parse_duration};

use crate::system::{CONTROL_SOCKET, STATE_DIRECTORY};

pub use balancing::BalancingFlags;
pub use modes::ModeFlags;

pub use tools::{CompletionsFlags, ManFlags, Shell, TopFlags};

pub use names::{DnsFlags, DnsUser, DnsWorkerFlags, EnvironmentFlags, EnvironmentFormat, RunFlags, WhichFlags};

/// The service network of a Kubernetes node: programs Services into the kernel, and explains every packet
#[derive(Debug, Parser)]
#[command(name = "portolan", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// The service network of a Kubernetes node: `portolan proxy` under the name of kube-proxy
#[derive(Debug, Parser)]
#[command(name = "kube-proxy", args_override_self = true, max_term_width = 110)]
pub struct KubeProxyCli {
    #[command(flatten)]
    pub flags: ProxyFlags,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the service proxy from a cluster or from manifests; takes every flag of kube-proxy
    #[command(args_override_self = true)]
    Proxy(Box<ProxyFlags>),
    /// Print the kernel objects for manifests; needs no privileges
    Render(RenderFlags),
    /// Show where a packet goes, step by step, and why
    Explain(ExplainFlags),
    /// List the Services that this node serves
    Services(ServicesFlags),
    /// List the open connections of Services, and those that lead to endpoints that are gone
    Connections(ConnectionsFlags),
    /// Show the Services of this node live: new connections, bytes, open connections, refusals, endpoints, changes
    Top(TopFlags),
    /// Serve a page that shows Services, paths and changes: beside the running proxy, or from manifests
    Page(PageFlags),
    /// List what changed: the event, what it means for clients, and how long it took
    Changes(ChangesFlags),
    /// Compare the kernel with the plan; exit status 1 if they differ
    Verify(VerifyFlags),
    /// Show what other manifests would change, as behaviour and as kernel objects; exit status 1 on a difference
    Diff(DiffFlags),
    /// Compare the plan with what kube-proxy has programmed here; exit status 1 if they differ
    Shadow(ShadowFlags),
    /// Serve DNS for a cluster or for manifests, in the place of CoreDNS
    Dns(Box<DnsFlags>),
    /// The DNS process of `portolan proxy --dns-user`
    #[command(hide = true)]
    DnsWorker(DnsWorkerFlags),
    /// A command of `kubectl portolan` that ends with the connection
    #[command(hide = true)]
    Attached(AttachedFlags),
    /// Print the environment variables that kubelet gives to a container
    Env(EnvironmentFlags),
    /// Run a command with those variables and with the cluster's DNS, as in a container
    Run(RunFlags),
    /// Remove everything that Portolan has programmed; with --all, also what kube-proxy has programmed
    Cleanup(CleanupFlags),
    /// Print a script that completes command lines in a shell
    Completions(CompletionsFlags),
    /// Print the manual page, or write the pages of all commands
    Man(ManFlags),
}

/// kube-proxy's flags, with its defaults and meanings, followed by our own, which also take effect beside --config.
#[derive(Args, Clone, Debug)]
pub struct ProxyFlags {
    #[command(flatten)]
    pub kube_proxy: KubeProxyFlags,
    #[command(flatten)]
    pub manifests: ManifestFlags,
    /// Program nothing; compare the plan with what kube-proxy has programmed, and log the differences
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, hide_default_value = true)]
    pub shadow: bool,
    /// With --shadow: compare once, print the result and exit; exit status 1 on a difference
    #[arg(long, requires = "shadow")]
    pub once: bool,
    /// With --once: the output format
    #[arg(long, short = 'o', default_value = "text", hide_default_value = true)]
    pub output: Output,
    /// Replace the portolan proxy that listens on the control socket: it hands over its listeners and exits
    #[arg(long)]
    pub replace: bool,
    /// Exit if this machine cannot run the configured mode, instead of running in another one
    #[arg(long)]
    pub strict_mode: bool,
    #[command(flatten)]
    pub own: OwnTrafficFlags,
    /// Least time between two writes to the kernel [default: that of the configuration if given there, else 0s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub min_sync_period: Option<Duration>,
    /// How often the whole kernel state is compared with the plan; also the longest backoff [default: that of the
    /// configuration]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub sync_period: Option<Duration>,
    #[command(flatten)]
    pub control: ControlFlags,
    /// Also serve the page at this address, for example 127.0.0.1:8480; addresses of other machines need a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub page_address: Option<SocketAddr>,
    /// With --page-address: a file with the token that clients of the page need
    #[arg(long, value_name = "FILE", requires = "page_address")]
    pub page_token_file: Option<PathBuf>,
    /// Also serve DNS, at this address of the node (usually 169.254.20.10; it is added to the loopback interface)
    #[arg(long, value_name = "ADDRESS[:PORT]", value_delimiter = ',')]
    pub dns: Vec<String>,
    /// With --dns: settings in YAML, as for `portolan dns --config`
    #[arg(long, value_name = "FILE", requires = "dns")]
    pub dns_config: Option<PathBuf>,
    /// With --dns: serve DNS in a process of its own, as this user and without any capability
    #[arg(long, value_name = "UID[:GID]", requires = "dns")]
    pub dns_user: Option<DnsUser>,
}

/// The source of facts.
#[derive(Args, Clone, Debug)]
pub struct FactFlags {
    #[command(flatten)]
    pub manifests: ManifestFlags,
    /// The name of this node (default: the machine's host name)
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
}

/// Facts from files, and the settings of their cluster.
#[derive(Args, Clone, Debug)]
pub struct ManifestFlags {
    /// Files or directories with Services, EndpointSlices, Endpoints, Pods and Nodes, in YAML or JSON
    #[arg(long, value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub manifests: Vec<PathBuf>,
    /// The range of ClusterIPs, or one per family, comma separated
    #[arg(long, value_name = "RANGES", default_value = "10.96.0.0/16", value_delimiter = ',')]
    pub service_cluster_ip_range: Vec<IpNet>,
    /// The range of node ports
    #[arg(long, value_name = "FROM-TO", default_value = "30000-32767")]
    pub service_node_port_range: String,
    /// Directory that stores the address of each Service, so that a restart keeps it
    #[arg(long, value_name = "DIRECTORY", default_value = STATE_DIRECTORY)]
    pub state_directory: PathBuf,
}

/// Our own flags about traffic; they also take effect beside --config.
#[derive(Args, Clone, Debug)]
pub struct OwnTrafficFlags {
    /// Count connections, packets and bytes by Service and endpoint, for /metrics
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set)]
    pub traffic_counters: bool,
    /// The bit of the packet mark that means "masquerade" [default: that of the configuration]
    #[arg(long, value_name = "0-31", value_parser = clap::value_parser!(u8).range(0..32))]
    pub masquerade_bit: Option<u8>,
    #[command(flatten)]
    pub balancing: BalancingFlags,
    #[command(flatten)]
    pub modes: ModeFlags,
}

/// The settings of a command that answers from manifests, as for `portolan proxy`.
#[derive(Args, Clone, Debug)]
pub struct SettingFlags {
    #[command(flatten)]
    pub manifests: ManifestFlags,
    #[command(flatten)]
    pub kube_proxy: TrafficFlags,
    #[command(flatten)]
    pub own: OwnTrafficFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ControlFlags {
    /// The control socket of the running `portolan proxy`
    #[arg(long, value_name = "PATH", default_value = CONTROL_SOCKET)]
    pub control_socket: PathBuf,
}

#[derive(Args, Clone, Copy, Debug)]
pub struct OutputFlags {
    /// The output format
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
    pub settings: SettingFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ExplainFlags {
    /// The client: an address, pod/NAMESPACE/NAME, node/NAME, a bare name, or client-ip for any client outside of the cluster
    #[arg(value_name = "SOURCE")]
    pub source: String,
    /// The destination: an address, svc/NAMESPACE/NAME, lb/…, nodeport/…, externalip/…, pod/…, node/… or a bare name, with
    /// a port by number or name, and /tcp (the default), /udp or /sctp; without a port, all ports of the Service
    #[arg(value_name = "DESTINATION[:PORT[/PROTOCOL]]")]
    pub destination: String,
    /// The interface that the packet arrives on, where pods are detected by interface
    #[arg(long, value_name = "NAME")]
    pub interface: Option<String>,
    /// The source is a process or a pod of this node, whose sockets meet the hooks of ebpf mode; implied by addresses of the
    /// node and of the pod ranges of its Node object
    #[arg(long)]
    pub on_node: bool,
    /// The addresses of the source, where a command on another machine has looked them up
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', hide = true)]
    pub source_addresses: Vec<IpAddr>,
    /// An existing connection: SOURCE has a port, too (CLIENT:PORT); exit status 1 if it is not tracked
    #[arg(long)]
    pub connection: bool,
    #[command(flatten)]
    pub question: QuestionFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ServicesFlags {
    /// Show the open connections of each endpoint, and how uneven they are
    #[arg(long)]
    pub load: bool,
    #[command(flatten)]
    pub question: QuestionFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ConnectionsFlags {
    /// Only those of this Service: NAME, NAMESPACE/NAME or NAME.NAMESPACE, with :PORT for one of its ports
    pub service: Option<String>,
    /// Print connections as they are opened and closed, until interrupted
    #[arg(long, short = 'w')]
    pub watch: bool,
    /// With --watch: the time between two readings of the connection table
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    pub interval: Duration,
    /// List at most so many
    #[arg(long, value_name = "NUMBER", default_value = "10000")]
    pub limit: usize,
    #[command(flatten)]
    pub control: ControlFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

/// With --manifests the page shows them alone; without, what the running `portolan proxy` does.
#[derive(Args, Clone, Debug)]
pub struct PageFlags {
    /// Where to listen; addresses of other machines need a token
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8480")]
    pub listen: SocketAddr,
    /// A file with the token that clients need
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    #[command(flatten)]
    pub settings: SettingFlags,
    #[command(flatten)]
    pub control: ControlFlags,
}

#[derive(Args, Clone, Debug)]
pub struct ChangesFlags {
    /// Only those of this Service: NAME or NAMESPACE/NAME
    pub service: Option<String>,
    /// Print changes as they happen, until interrupted
    #[arg(long, short = 'w')]
    pub watch: bool,
    /// List at most so many, the newest
    #[arg(long, value_name = "NUMBER", default_value = "1000")]
    pub limit: usize,
    #[command(flatten)]
    pub control: ControlFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct VerifyFlags {
    #[command(flatten)]
    pub question: QuestionFlags,
}

#[derive(Args, Clone, Debug)]
pub struct DiffFlags {
    /// Compare with these manifests instead of with the running daemon, which also reads `--manifests -`, standard input
    #[arg(long, value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub from: Vec<PathBuf>,
    #[command(flatten)]
    pub question: QuestionFlags,
}

/// With --manifests the answer comes from them alone; without, from the running `portolan proxy`.
#[derive(Args, Clone, Debug)]
pub struct QuestionFlags {
    #[command(flatten)]
    pub settings: SettingFlags,
    #[command(flatten)]
    pub control: ControlFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct AttachedFlags {
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
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
    pub settings: SettingFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}

#[derive(Args, Clone, Debug)]
pub struct CleanupFlags {
    /// Also remove what kube-proxy has programmed, in every mode
    #[arg(long, conflicts_with = "after_kube_proxy")]
    pub all: bool,
    /// First wait until kube-proxy serves this node's Services, so that there is no moment without rules
    #[arg(long)]
    pub after_kube_proxy: bool,
    /// How long to wait for kube-proxy
    #[arg(long, default_value = "5m", value_parser = parse_duration, requires = "after_kube_proxy")]
    pub timeout: Duration,
    #[command(flatten)]
    pub control: ControlFlags,
    #[command(flatten)]
    pub output: OutputFlags,
}
