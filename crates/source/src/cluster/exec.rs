//! Credential plugins: programs that print a token or a client certificate, by `client.authentication.k8s.io`.

use std::io::{self, IsTerminal};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::base64;
use super::error::AccessError;
use super::kubeconfig::{Cluster, Exec};
use super::selected::Selected;
use crate::system::plugin::output;

const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// How much of a plugin's error output an error quotes.
const LONGEST_QUOTE: usize = 300;

/// What a plugin has printed. Not `Debug`: these are secrets.
#[derive(Default)]
pub(super) struct Issued {
    pub(super) token: Option<String>,
    /// PEM, each.
    pub(super) certificate: Option<(String, String)>,
    pub(super) expires: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Credential {
    status: Option<Status>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

/// Runs the plugin and waits for it. `authority` is what `certificate-authority` holds. A plugin that does not end in time is
/// killed, unless it can ask the operator at a terminal.
pub(super) fn run(
    selected: &Selected,
    exec: &Exec,
    authority: Option<&[u8]>,
    limit: Duration,
) -> Result<Issued, AccessError> {
    let version = version(selected, exec)?;
    let command = exec.command.as_ref().ok_or_else(|| selected.user_field("exec.command", "is not set"))?;
    let is_interactive = is_interactive(selected, exec)?;
    let mut program = Command::new(command);
    program.args(exec.args.iter().flatten());
    let variables = exec.env.iter().flatten();
    program.envs(variables.map(|it| (it.name.as_str(), it.value.as_deref().unwrap_or_default())));
    program.env("KUBERNETES_EXEC_INFO", information(selected, exec, version, is_interactive, authority).to_string());
    program.stdin(if is_interactive { Stdio::inherit() } else { Stdio::null() });
    program.stderr(if is_interactive { Stdio::inherit() } else { Stdio::piped() });
    let failed = |reason: String| selected.user_field("exec", format!("{command}: {reason}"));
    let timeout = Some(limit).filter(|_| !(is_interactive && io::stdin().is_terminal()));
    let output = output(program, timeout);
    let output = output.map_err(|error| failed(format!("cannot run: {error}{}", install_hint(exec))))?;
    let output =
        output.ok_or_else(|| failed(format!("did not end within {} s and was killed", limit.as_secs_f32())))?;
    if !output.status.success() {
        return Err(failed(failure(&output)));
    }
    issued(&output.stdout).map_err(failed)
}

fn version<'a>(selected: &Selected, exec: &'a Exec) -> Result<&'a str, AccessError> {
    let version = exec.api_version.as_deref().unwrap_or_default();
    if VERSIONS.contains(&version) {
        return Ok(version);
    }
    let reason = format!("{version:?} is not supported; supported are {} and {}", VERSIONS[0], VERSIONS[1]);
    Err(selected.user_field("exec.apiVersion", reason))
}

fn is_interactive(selected: &Selected, exec: &Exec) -> Result<bool, AccessError> {
    match exec.interactive_mode.as_deref().unwrap_or("IfAvailable") {
        "Never" => Ok(false),
        "IfAvailable" => Ok(io::stdin().is_terminal()),
        "Always" => Ok(true),
        other => {
            let reason = format!("{other:?} is none of Never, IfAvailable and Always");
            Err(selected.user_field("exec.interactiveMode", reason))
        }
    }
}

/// What the plugin finds in its environment.
fn information(
    selected: &Selected,
    exec: &Exec,
    version: &str,
    is_interactive: bool,
    authority: Option<&[u8]>,
) -> Value {
    let mut spec = json!({"interactive": is_interactive});
    if exec.provide_cluster_info == Some(true) {
        spec["cluster"] = cluster_information(&selected.cluster, authority);
    }
    json!({"apiVersion": version, "kind": "ExecCredential", "spec": spec})
}

fn cluster_information(cluster: &Cluster, authority: Option<&[u8]>) -> Value {
    let mut information = json!({"server": cluster.server});
    if let Some(name) = &cluster.tls_server_name {
        information["tls-server-name"] = json!(name);
    }
    if cluster.insecure_skip_tls_verify == Some(true) {
        information["insecure-skip-tls-verify"] = json!(true);
    }
    if let Some(authority) = authority {
        information["certificate-authority-data"] = json!(base64::encode(authority));
    }
    if let Some(config) = cluster.plugin_config() {
        information["config"] = config.clone();
    }
    information
}

fn install_hint(exec: &Exec) -> String {
    exec.install_hint.as_ref().map(|hint| format!(" ({})", hint.trim())).unwrap_or_default()
}

/// Only the error output is quoted: the standard output may hold a token.
fn failure(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    let quote: String = errors.trim().chars().take(LONGEST_QUOTE).collect();
    if quote.is_empty() { output.status.to_string() } else { format!("{}: {quote}", output.status) }
}

/// The output is JSON, and YAML to some.
fn issued(output: &[u8]) -> Result<Issued, String> {
    let text = std::str::from_utf8(output).map_err(|_| "the output is not UTF-8".to_owned())?;
    let credential: Result<Credential, _> = portolan_yaml::read_as(text);
    let credential = credential.map_err(|_| "the output is not an ExecCredential".to_owned())?;
    let status = credential.status.ok_or("the output has no status")?;
    let token = status.token.filter(|token| !token.is_empty());
    let filled = |it: Option<String>| it.filter(|text| !text.is_empty());
    let certificate = match (filled(status.client_certificate_data), filled(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("status.clientCertificateData and status.clientKeyData must be given together".to_owned()),
    };
    if token.is_none() && certificate.is_none() {
        return Err("status has neither a token nor a client certificate".to_owned());
    }
    let expires = status.expiration_timestamp.map(|text| text.parse()).transpose();
    let expires = expires.map_err(|error: jiff::Error| format!("status.expirationTimestamp: {error}"))?;
    Ok(Issued { token, certificate, expires })
}
