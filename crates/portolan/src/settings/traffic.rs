//! How Services become traffic: the plan's configuration and the mode. The daemon and every command derive them from
//! flags and file in the same way.

use std::time::Duration;

use anyhow::bail;
use ipnet::IpNet;
use portolan_config::{ConfiguredMode, Document, FIELDS, Flag, Given, Notice, Value, is_on, parse_range};
use portolan_dataplane::mode::Mode;
use portolan_dataplane::{ModeSettings, OptionValue, Options, modes};
use portolan_plan::{AddressSelector, DetectLocal, Limits, PlanConfig};

use crate::flags::OwnTrafficFlags;

#[derive(Clone, Debug)]
pub struct TrafficSettings {
    pub plan: PlanConfig,
    pub configured_mode: ConfiguredMode,
    /// The mode that runs; its limits are in `plan`.
    pub mode: &'static dyn Mode,
    pub mode_settings: ModeSettings,
}

/// Whether a mode runs here, or is only queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Run,
    Query,
}

impl TrafficSettings {
    /// With `is_takeover`, an unset mode has kube-proxy's meaning.
    pub(super) fn read(
        document: &Document,
        given: &Given,
        own: &OwnTrafficFlags,
        is_takeover: bool,
        purpose: Purpose,
    ) -> (Self, Vec<Notice>) {
        let configured_mode = document.mode();
        let (mode, mode_notice) = chosen(configured_mode, purpose);
        let (node_port_addresses, address_notice) = node_port_addresses(document, is_takeover);
        let plan = PlanConfig {
            detect_local: detect_local(document),
            masquerade_all: document.boolean(&format!("{}.masqueradeAll", configured_mode.masquerade_section())),
            node_port_addresses,
            loopback_node_ports: configured_mode.serves_loopback_node_ports(is_takeover)
                && document.boolean("iptables.localhostNodePorts"),
            allow_external_ips: is_on(document.gates(), "AllowServiceExternalIPs"),
            balancing: own.balancing.balancing().or(&document.balancing()),
            limits: Limits::default(),
        };
        let mode_settings = ModeSettings {
            masquerade_bit: own.masquerade_bit.unwrap_or_else(|| masquerade_bit(document)),
            traffic_counters: own.traffic_counters,
            options: options(document, given, &own.modes.0),
        };
        let notices = mode_notice.into_iter().chain(address_notice).collect();
        let mut settings = Self { plan, configured_mode, mode, mode_settings };
        settings.use_mode(mode);
        (settings, notices)
    }

    /// An error if another mode than the configured one runs.
    pub(super) fn refuse_substitute(&self) -> anyhow::Result<()> {
        let configured = self.configured_mode;
        if configured == ConfiguredMode::Unset || self.mode.name() == configured.name() {
            return Ok(());
        }
        let missing = modes::named(configured.name()).map(|mode| mode.missing().unwrap_or_default());
        let missing = missing.unwrap_or_else(|| "this version does not have it".into());
        bail!("mode {} is configured, --strict-mode allows no other, and {missing}", configured.name())
    }

    /// An error if the configured mode is for nodes with another operating system, as in kube-proxy.
    pub(super) fn refuse_other_system(&self) -> anyhow::Result<()> {
        let Some(mode) = modes::named(self.configured_mode.name()) else { return Ok(()) };
        if mode.system() == std::env::consts::OS {
            return Ok(());
        }
        let of_here: Vec<&str> = modes::of_this_system().map(|mode| mode.name()).collect();
        bail!(
            "mode {} is for {} nodes only, and this is {}: set mode to one of {}, or to nothing",
            mode.name(),
            mode.system(),
            std::env::consts::OS,
            of_here.join(", ")
        )
    }

    pub(crate) fn use_mode(&mut self, mode: &'static dyn Mode) {
        self.mode = mode;
        self.plan.limits = mode.limits_with(&self.mode_settings);
    }

    /// kube-proxy's default of a second saves work in modes with expensive writes; elsewhere it only adds delay.
    pub(super) fn min_sync_period(&self, document: &Document) -> Duration {
        let path = document.of_mode("minSyncPeriod");
        let counts = self.mode.batches_changes() || document.is_given(&path);
        if counts { document.span(&path).duration() } else { Duration::ZERO }
    }
}

/// The mode that runs for a configured one, and a notice for the operator.
fn chosen(configured: ConfiguredMode, purpose: Purpose) -> (&'static dyn Mode, Option<Notice>) {
    let default = modes::default();
    if configured == ConfiguredMode::Unset {
        let notice = format!("no mode is configured: running in mode {}", default.name());
        return (default, Some(Notice::info(notice)));
    }
    let Some(mode) = modes::named(configured.name()) else {
        return (default, Some(substitute(configured, default, "this version does not have it")));
    };
    // Nothing can replace the default; the daemon logs what it lacks.
    if purpose != Purpose::Run || mode == default {
        return (mode, None);
    }
    match mode.missing() {
        Some(missing) => (default, Some(substitute(configured, default, &missing))),
        None => (mode, None),
    }
}

fn substitute(configured: ConfiguredMode, runs: &dyn Mode, because: &str) -> Notice {
    let (configured, runs) = (configured.name(), runs.name());
    Notice::warning(format!(
        "mode {configured} is configured, but {because}: running in mode {runs}, which serves the same Services; set mode: \
         {runs} to silence this warning"
    ))
}

fn masquerade_bit(document: &Document) -> u8 {
    let path = format!("{}.masqueradeBit", document.mode().masquerade_section());
    u8::try_from(document.integer(&path)).unwrap_or(14)
}

/// Every field by its path, and every flag without a field by its name; a mode reads its own.
fn options(document: &Document, given: &Given, own: &Options) -> Options {
    let mut options = own.clone();
    for field in FIELDS {
        set(&mut options, field.path, document.value(field.path));
    }
    for flag in Flag::all().filter(|flag| flag.field().is_none()) {
        let value = given.value(flag.name).cloned().unwrap_or_else(|| flag.default_value());
        set(&mut options, flag.name, &value);
    }
    options
}

fn set(options: &mut Options, name: &str, value: &Value) {
    let value = match value {
        Value::Text(text) => OptionValue::Text(text.clone()),
        Value::Boolean(value) => OptionValue::Boolean(*value),
        Value::Duration(span) => OptionValue::Duration(span.duration()),
        Value::List(items) => OptionValue::List(items.iter().map(|item| canonical(item)).collect()),
        Value::Integer(_) | Value::Number(_) | Value::Gates(_) | Value::Patterns(_) => return,
    };
    options.set(name, value);
}

/// kube-proxy accepts leading zeros and host bits in a range; a mode reads the canonical form.
fn canonical(item: &str) -> String {
    parse_range(item).map_or_else(|| item.to_owned(), |range| range.to_string())
}

/// The addresses at which kube-proxy would serve node ports in the configured mode, so that a takeover closes none.
/// With manifests there is no kube-proxy to take over from, and an unset mode means the default mode.
fn node_port_addresses(document: &Document, is_takeover: bool) -> (Vec<AddressSelector>, Option<Notice>) {
    let items = document.list("nodePortAddresses");
    let selectors = items.iter().filter_map(|item| match item.as_str() {
        "primary" => Some(AddressSelector::Primary),
        "localhost" => Some(AddressSelector::Localhost),
        "all" => Some(AddressSelector::All),
        range => parse_range(range).map(AddressSelector::Range),
    });
    let is_everywhere = match document.mode() {
        ConfiguredMode::Unset => is_takeover,
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
        ConfiguredMode::Unset => "no mode".to_owned(),
        mode => format!("mode {}", mode.name()),
    };
    Notice::info(format!(
        "nodePortAddresses is empty and {mode} is configured: node ports are served at all addresses of this node, as in \
         kube-proxy; nodePortAddresses: [primary] serves them at the node's own addresses only"
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_runs_as_something_and_a_substitute_is_reported() {
        for configured in ConfiguredMode::ALL {
            for purpose in [Purpose::Run, Purpose::Query] {
                let (mode, notice) = chosen(configured, purpose);
                assert_eq!(notice.is_some(), mode.name() != configured.name(), "{configured:?}");
            }
        }
    }

    #[test]
    fn a_mode_of_another_system_is_refused() {
        for mode in modes::ALL {
            let configured_mode = ConfiguredMode::parse(mode.name()).expect("every mode can be configured");
            let (mode_settings, plan) = (ModeSettings::default(), PlanConfig::default());
            let settings = TrafficSettings { plan, configured_mode, mode: modes::default(), mode_settings };
            let refusal = settings.refuse_other_system().err().map(|error| error.to_string());
            assert_eq!(refusal.is_some(), mode.system() != std::env::consts::OS, "{refusal:?}");
        }
    }

    #[test]
    fn questions_are_answered_for_modes_that_this_machine_cannot_run() {
        for mode in modes::ALL {
            let configured = ConfiguredMode::parse(mode.name()).expect("every mode can be configured");
            assert_eq!(chosen(configured, Purpose::Query).0.name(), mode.name());
        }
    }
}
