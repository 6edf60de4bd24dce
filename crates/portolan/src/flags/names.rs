//! Flags of the commands for DNS and environment variables.

use std::ffi::OsString;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::{ControlFlags, FactFlags};

/// The API server.
#[derive(Args, Clone, Debug)]
pub struct ServerFlags {
    /// Kubeconfig of the API server; `portolan dns` defaults to the pod's service account
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server; overrides the kubeconfig
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
}

/// Flags override --config and --corefile.
#[derive(Args, Clone, Debug)]
pub struct DnsFlags {
    /// Addresses to listen on, UDP and TCP: ADDRESS:PORT, ADDRESS or :PORT [default: :53]
    #[arg(long, value_name = "ADDRESS:PORT", value_delimiter = ',')]
    pub listen: Vec<String>,
    #[command(flatten)]
    pub facts: FactFlags,
    #[command(flatten)]
    pub server: ServerFlags,
    /// Settings in YAML (docs/dns.md lists them)
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Settings from a CoreDNS Corefile; unsupported plugins are logged
    #[arg(long, value_name = "FILE", conflicts_with = "config")]
    pub corefile: Option<PathBuf>,
    /// The cluster's domain [default: cluster.local]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub cluster_domain: Vec<String>,
    /// TTL of answers, in seconds [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(0..=3600))]
    pub ttl: Option<u32>,
    /// Pod names, such as 1-2-3-4.NAMESPACE.pod.cluster.local: disabled, insecure or verified [default: disabled]
    #[arg(long, value_name = "HOW")]
    pub pods: Option<String>,
    /// Upstream DNS servers, or a file like /etc/resolv.conf that lists them; `none` disables forwarding [default:
    /// /etc/resolv.conf]
    #[arg(long, value_name = "SERVER", value_delimiter = ',')]
    pub upstream: Vec<String>,
    /// Upstream DNS servers for one domain; can be repeated
    #[arg(long, value_name = "DOMAIN=SERVER[,SERVER]")]
    pub stub_domain: Vec<String>,
    /// Resolve search lists for clients: off, pods (whose address is known) or everybody [default: off]
    #[arg(long, value_name = "FOR")]
    pub autopath: Option<String>,
    /// UDP queries per second that one client may send [default: unlimited]
    #[arg(long, value_name = "NUMBER")]
    pub rate_limit: Option<u32>,
    /// Log every query
    #[arg(long)]
    pub log_queries: bool,
    /// Address of /health
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub health: Option<String>,
    /// Address of /ready
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub ready: Option<String>,
    /// Address of /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<String>,
    /// Threads per address [default: one per core]
    #[arg(long, value_name = "NUMBER")]
    pub threads: Option<usize>,
    /// How much to log: 0 normal, 2 more, 4 everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    pub verbosity: u8,
}

/// The DNS process beside the rules. Standard input is a socket to the process that started it.
#[derive(Args, Clone, Debug)]
pub struct DnsWorkerFlags {
    #[arg(long, required = true)]
    pub listen: Vec<SocketAddr>,
    #[arg(long)]
    pub config: Option<PathBuf>,
    #[arg(long)]
    pub user: DnsUser,
    #[arg(short = 'v', long = "v", default_value_t = 0)]
    pub verbosity: u8,
}

/// A user and a group, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsUser {
    pub user: u32,
    pub group: u32,
}

impl FromStr for DnsUser {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (user, group) = text.split_once(':').unwrap_or((text, text));
        let number = |text: &str| text.parse::<u32>().map_err(|_| "write UID or UID:GID, as numbers".to_owned());
        match (number(user)?, number(group)?) {
            (0, _) => Err("write a user other than root".to_owned()),
            (user, group) => Ok(Self { user, group }),
        }
    }
}

impl fmt::Display for DnsUser {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.user, self.group)
    }
}

/// The container, and the source of its variables: --manifests, --kubeconfig or --master, or else the running `portolan
/// proxy`.
#[derive(Args, Clone, Debug)]
pub struct WhichFlags {
    /// The namespace of the container
    #[arg(long, short = 'n', value_name = "NAME", default_value = "default")]
    pub namespace: String,
    /// A Pod in the manifests, whose enableServiceLinks applies
    #[arg(long, value_name = "NAME")]
    pub pod: Option<String>,
    /// Whether the variables include the Services of the namespace; those of `kubernetes` are always included
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set)]
    pub enable_service_links: bool,
    #[command(flatten)]
    pub facts: FactFlags,
    #[command(flatten)]
    pub server: ServerFlags,
    #[command(flatten)]
    pub control: ControlFlags,
}

#[derive(Args, Clone, Debug)]
pub struct EnvironmentFlags {
    #[command(flatten)]
    pub which: WhichFlags,
    /// NAME=VALUE, JSON, or shell commands
    #[arg(long, short = 'o', default_value = "dotenv")]
    pub output: EnvironmentFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EnvironmentFormat {
    Dotenv,
    Json,
    Export,
}

#[derive(Args, Clone, Debug)]
pub struct RunFlags {
    #[command(flatten)]
    pub which: WhichFlags,
    /// Nameserver of the command: the address of `portolan proxy --dns`
    #[arg(long, value_name = "ADDRESS", default_value = "169.254.20.10")]
    pub dns: IpAddr,
    /// The cluster's domain, for the search list
    #[arg(long, value_name = "NAME", default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Keep the machine's own resolv.conf for the command
    #[arg(long)]
    pub keep_resolv_conf: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
