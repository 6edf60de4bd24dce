//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use ipnet::IpNet;

use crate::duration::parse_duration;

/// The service network of a Kubernetes node: Services become working traffic, and every packet can be explained.
#[derive(Debug, Parser)]
#[command(name = "portolan", version, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run: watch the manifests and keep the kernel's rules as they ask
    Proxy(ProxyFlags),
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
    /// Remove everything that Portolan has programmed, and nothing else
    Cleanup(CleanupFlags),
}

#[derive(Args, Clone, Debug)]
pub struct ProxyFlags {
    #[command(flatten)]
    pub facts: FactFlags,
    #[command(flatten)]
    pub traffic: TrafficFlags,
    /// Least time between two writes to the kernel; 0s writes on every change
    #[arg(long, default_value = "0s", value_parser = parse_duration, alias = "iptables-min-sync-period")]
    pub min_sync_period: Duration,
    /// How often the kernel is read back and compared as a whole; also the longest wait before a retry
    #[arg(long, default_value = "30s", value_parser = parse_duration, alias = "iptables-sync-period")]
    pub sync_period: Duration,
    #[command(flatten)]
    pub control: ControlFlags,
    /// Log more: 0 normal, 2 every sync, 4 everything
    #[arg(short = 'v', long = "v", default_value_t = 0)]
    pub verbosity: u8,
}

/// Where the facts come from.
#[derive(Args, Clone, Debug)]
pub struct FactFlags {
    /// Files or directories with Services, EndpointSlices, Endpoints, Pods and Nodes, in YAML or JSON
    #[arg(long, value_name = "PATH", num_args = 1.., value_delimiter = ',')]
    pub manifests: Vec<PathBuf>,
    /// The name of this node (default: the machine's host name)
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
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
    /// Rewrite the source address of everything sent to ClusterIPs
    #[arg(long)]
    pub masquerade_all: bool,
    /// The bit of the packet mark that means "masquerade"
    #[arg(long, value_name = "0-31", default_value_t = 14, value_parser = clap::value_parser!(u8).range(0..32))]
    pub masquerade_bit: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    Nftables,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
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

#[derive(Args, Clone, Debug)]
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
pub struct CleanupFlags {
    #[command(flatten)]
    pub output: OutputFlags,
}
