//! Precedence of flags and file. With a file, flags that set a field of it are ignored, with a few exceptions.

use std::net::SocketAddr;

use crate::arguments::Given;
use crate::check::check;
use crate::decode::decode;
use crate::document::{Document, Place, Values};
use crate::flag::Target;
use crate::gates;
use crate::lenient::parse_address;
use crate::mode::ConfiguredMode;
use crate::notice::{Errors, Notice};
use crate::sanity;
use crate::span::Span;
use crate::value::Value;

/// A configuration that has passed all checks, and its notices.
#[derive(Clone, Debug)]
pub struct Read {
    pub document: Document,
    pub notices: Vec<Notice>,
    /// Whether the health and metrics servers run; only two deprecated flags can disable them.
    pub serves_health: bool,
    pub serves_metrics: bool,
}

/// The configuration of a command line without --config.
pub fn from_flags(given: &Given) -> Result<Read, Errors> {
    let mut values = Values::default();
    for (flag, value) in given.flags() {
        if let Target::Field(path) | Target::Override(path) = flag.target
            && !is_unset(value)
        {
            values.set(path, value.clone(), Place::Flag(flag.name));
        }
    }
    apply_mode(&mut values);
    // With flags, the minimum interval of ipvs mode is that of iptables mode; with a file it is 0.
    let overriding = [("ipvs.minSyncPeriod", Value::Duration(Span(1_000_000_000)))];
    let mut document = Document::complete("", &values, &overriding);
    let serves_health = apply_port(&mut document, given, "healthz-port", "healthzBindAddress");
    let serves_metrics = apply_port(&mut document, given, "metrics-port", "metricsBindAddress");
    let notices = given.without_effect();
    finished(Read { document, notices, serves_health, serves_metrics })
}

/// The configuration of a file, whose name is for messages, and of the flags beside it.
pub fn from_file(file: &str, text: &str, given: &Given) -> Result<Read, Errors> {
    let mut decoded = decode(file, text)?;
    for (flag, value) in given.flags() {
        if let Target::Override(path) = flag.target
            && !is_unset(value)
        {
            let value = merged(value, decoded.values.value(path));
            decoded.values.set(path, value, Place::Flag(flag.name));
        }
    }
    let document = Document::complete(file, &decoded.values, &[]);
    let mut notices = decoded.notices;
    notices.extend(ignored(given));
    notices.extend(document.without_effect());
    finished(Read { document, notices, serves_health: true, serves_metrics: true })
}

fn finished(mut read: Read) -> Result<Read, Errors> {
    let errors = check(&read.document);
    if !errors.is_empty() {
        return Err(Errors(errors));
    }
    finalize(&mut read.document);
    read.notices.extend(gates::notices(read.document.gates()));
    read.notices.extend(sanity::notices(&read.document));
    Ok(read)
}

/// The values that kube-proxy completes last: the node name in the form of the API, and the node port addresses.
fn finalize(document: &mut Document) {
    let name = document.text("hostnameOverride").trim().to_lowercase();
    document.replace("hostnameOverride", Value::Text(name));
    if document.list("nodePortAddresses").is_empty() && document.mode() == ConfiguredMode::Nftables {
        document.replace("nodePortAddresses", Value::List(vec!["primary".into()]));
    }
}

/// An empty string on the command line counts as unset.
fn is_unset(value: &Value) -> bool {
    matches!(value, Value::Text(text) if text.is_empty())
}

/// Patterns of both apply, those of the flag first; otherwise the flag wins.
fn merged(flag: &Value, file: Option<&Value>) -> Value {
    match (flag, file) {
        (Value::Patterns(first), Some(Value::Patterns(second))) => {
            Value::Patterns(first.iter().chain(second).cloned().collect())
        }
        _ => flag.clone(),
    }
}

/// The nftables section has no flags: those of iptables apply to it.
fn apply_mode(values: &mut Values) {
    let is_nftables = matches!(values.value("mode"), Some(Value::Text(mode)) if mode == "nftables" || mode == "ebpf");
    if is_nftables {
        values.copy("iptables.syncPeriod", "nftables.syncPeriod");
        values.copy("iptables.minSyncPeriod", "nftables.minSyncPeriod");
        values.copy("iptables.masqueradeAll", "nftables.masqueradeAll");
    }
}

/// The deprecated port flags: they apply if no address with a port is set, and 0 disables the server.
fn apply_port(document: &mut Document, given: &Given, flag: &str, path: &'static str) -> bool {
    let Some(Value::Integer(port)) = given.value(flag) else { return true };
    let address_flag = flag.replace("-port", "-bind-address");
    let given_address = given.text(&address_flag);
    let socket = document.text(path).parse::<SocketAddr>().ok();
    let is_open = given_address.is_none_or(|text| parse_address(text).is_some());
    if let (true, Ok(port @ 1..), Some(socket)) = (is_open, u16::try_from(*port), socket) {
        document.replace(path, Value::Text(SocketAddr::new(socket.ip(), port).to_string()));
    }
    *port != 0
}

/// One notice for all flags that the file overrides, and one for each flag without effect.
fn ignored(given: &Given) -> Vec<Notice> {
    let is_void = |target: &Target, name: &str| {
        matches!(target, Target::Field(_)) || matches!(name, "healthz-port" | "metrics-port")
    };
    let (void, rest): (Vec<_>, Vec<_>) = given.flags().partition(|(flag, _)| is_void(&flag.target, flag.name));
    let names: Vec<String> = void.iter().map(|(flag, _)| format!("--{}", flag.name)).collect();
    let void =
        (!names.is_empty()).then(|| Notice::warning(format!("ignored because --config is set: {}", names.join(", "))));
    let kept = Given::of(rest.into_iter().map(|(flag, value)| (flag.name, value.clone())));
    void.into_iter().chain(kept.without_effect()).collect()
}
