//! What the daemon and the commands are configured to do, typed and checked, from flags and file.

mod conntrack;
mod dns;
mod dns_acl;
mod dns_upstreams;
mod facts;
mod file;
mod page;
mod question;
mod traffic;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use portolan_config::{Notice, Read};
use portolan_source::cluster::Names;

use crate::flags::{DnsUser, OutputFlags, ProxyFlags};
use crate::log::LogSettings;

pub use conntrack::ConntrackSettings;
pub use dns::DnsSettings;
pub(crate) use facts::node_name;
pub use facts::{ClusterSettings, Facts, Keep, require_manifests, source_options};
pub use page::PageSettings;
pub use question::QuestionSettings;
use traffic::Purpose;
pub use traffic::TrafficSettings;

/// The domain of a cluster whose domain is not configured.
pub(crate) const DOMAIN: &str = "cluster.local";

/// Settings of `portolan proxy`.
#[derive(Clone, Debug)]
pub struct Settings {
    pub facts: Facts,
    pub traffic: TrafficSettings,
    pub min_sync_period: Duration,
    pub sync_period: Duration,
    pub conntrack: ConntrackSettings,
    pub oom_score_adj: i32,
    /// The node's primary address; overrides the Node object.
    pub bind_address: Option<IpAddr>,
    pub healthz: Option<SocketAddr>,
    pub metrics: Option<SocketAddr>,
    pub bind_hard_fail: bool,
    pub profiling: bool,
    /// Windows: the service control manager starts and ends the process.
    pub runs_as_service: bool,
    /// Program nothing; compare with what kube-proxy has programmed.
    pub shadow: bool,
    /// In shadow mode: compare once, and print the result in this form.
    pub once: Option<OutputFlags>,
    /// DNS beside the rules.
    pub dns: Option<DnsSettings>,
    /// The page, if it is served.
    pub page: Option<PageSettings>,
    /// Replace the daemon that answers at the control socket.
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

/// What to do instead of running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    pub cleanup: bool,
    pub init_only: bool,
    pub write_config_to: Option<PathBuf>,
}

impl Settings {
    /// Reads and checks flags and file.
    pub fn read(flags: &ProxyFlags) -> anyhow::Result<Self> {
        let given = &flags.kube_proxy.0;
        let (Read { document, mut notices, serves_health, serves_metrics }, config_file) = file::read(given)?;
        let is_takeover = config_file.is_some() || flags.manifests.manifests.is_empty();
        let (traffic, traffic_notices) = TrafficSettings::read(&document, given, &flags.own, is_takeover, Purpose::Run);
        traffic.refuse_other_system()?;
        if flags.strict_mode {
            traffic.refuse_substitute()?;
        }
        notices.extend(traffic_notices);
        let names = if flags.dns.is_empty() { Names::None } else { Names::OfServices };
        let socket = |path: &str| document.text(path).parse().with_context(|| document.place(path));
        Ok(Self {
            facts: Facts::read(&flags.manifests, &document, given, names, Keep::Allocations)?,
            min_sync_period: flags.min_sync_period.unwrap_or_else(|| traffic.min_sync_period(&document)),
            sync_period: flags.sync_period.unwrap_or_else(|| document.span(&document.of_mode("syncPeriod")).duration()),
            traffic,
            conntrack: ConntrackSettings::read(&document),
            oom_score_adj: document.integer("oomScoreAdj") as i32,
            bind_address: document.bind_address(),
            healthz: if serves_health { Some(socket("healthzBindAddress")?) } else { None },
            metrics: if serves_metrics { Some(socket("metricsBindAddress")?) } else { None },
            bind_hard_fail: document.boolean("bindAddressHardFail"),
            profiling: document.boolean("enableProfiling"),
            runs_as_service: document.boolean("windowsRunAsService"),
            shadow: flags.shadow,
            once: flags.once.then_some(OutputFlags { output: flags.output }),
            dns: DnsSettings::beside_rules(&flags.dns, flags.dns_config.as_deref())?,
            page: PageSettings::read(flags.page_address, flags.page_token_file.as_deref())?,
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

    /// Uses the mode of other settings, with all that belongs to it.
    pub fn keep_traffic_of(&mut self, other: &Self) {
        self.traffic = other.traffic.clone();
        (self.sync_period, self.min_sync_period) = (other.sync_period, other.min_sync_period);
    }

    /// The same flags with the file as it is now. After an error the previous settings stay in force.
    pub fn read_again(&self) -> anyhow::Result<Self> {
        Self::read(&self.source)
    }

    /// The user of the DNS process, if DNS has a process of its own.
    pub fn dns_user(&self) -> Option<DnsUser> {
        self.source.dns_user
    }

    /// The configuration of DNS beside the rules.
    pub fn dns_config_file(&self) -> Option<&Path> {
        self.source.dns_config.as_deref()
    }

    /// The domain of the cluster, as far as this process knows it.
    pub fn domain(&self) -> String {
        let zone = self.dns.as_ref().and_then(|dns| dns.config.zone.zones.first());
        zone.map_or(DOMAIN.to_owned(), ToString::to_string)
    }

    /// The configuration in force as a file.
    pub fn to_yaml(&self) -> &str {
        &self.yaml
    }
}
