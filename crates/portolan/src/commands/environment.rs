//! `portolan env` and `portolan run`: the Service environment of a container, without a container.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use portolan_dns::environment::variables;
use portolan_kernel::mount::bind_mount;
use portolan_model::Snapshot;
use portolan_source::Manifests;
use portolan_source::cluster::{Cluster, ClusterOptions, ContentType, Names};

use super::{unexpected, write_out};
use crate::control::{Answer, Question, query};
use crate::daemon::runtime;
use crate::exit::SUCCESS;
use crate::flags::{EnvironmentFlags, EnvironmentFormat, RunFlags, WhichFlags};
use crate::offline::require_all;
use crate::settings::{Keep, node_name, source_options};
use crate::system;

const RESOLV_CONF: &str = "/etc/resolv.conf";
/// For the first list of all Services from an API server.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The C library's limit.
const MOST_SEARCHED: usize = 32;
/// Names of a temporary directory that are tried.
const MOST_ATTEMPTS: usize = 1000;

type Variables = Vec<(String, String)>;

pub fn environment(flags: &EnvironmentFlags) -> anyhow::Result<u8> {
    let variables = found(&flags.which)?;
    let text = match flags.output {
        EnvironmentFormat::Dotenv => lines(&variables, |name, value| format!("{name}={value}\n")),
        EnvironmentFormat::Export => lines(&variables, |name, value| format!("export {name}='{value}'\n")),
        EnvironmentFormat::Json => {
            let object: serde_json::Map<_, _> =
                variables.into_iter().map(|(name, value)| (name, value.into())).collect();
            serde_json::to_string_pretty(&object)? + "\n"
        }
    };
    write_out(&text)?;
    Ok(SUCCESS)
}

fn lines(variables: &Variables, line: impl Fn(&str, &str) -> String) -> String {
    variables.iter().map(|(name, value)| line(name, value)).collect()
}

/// Replaces this process with the command, so that signals and the exit status are its own.
pub fn run(flags: &RunFlags) -> anyhow::Result<u8> {
    let (program, arguments) = flags.command.split_first().context("write the command to run after --")?;
    let variables = found(&flags.which)?;
    if !flags.keep_resolv_conf {
        use_our_names(flags).context("mounting a resolv.conf for the command (--keep-resolv-conf disables this)")?;
    }
    // Variables that are already set win, as a container's own variables do.
    let new = variables.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    let mut command = Command::new(program);
    command.args(arguments).envs(new);
    system::become_command(command).with_context(|| format!("starting {}", program.display()))
}

fn use_our_names(flags: &RunFlags) -> anyhow::Result<()> {
    let host = std::fs::read_to_string(RESOLV_CONF).unwrap_or_default();
    let text = resolv_conf(flags.dns, &flags.which.namespace, &flags.cluster_domain, &host);
    let directory = private_directory()?;
    let file = directory.join("resolv.conf");
    let written = std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()));
    let shown = written.and_then(|()| Ok(bind_mount(&file, Path::new(RESOLV_CONF))?));
    // Once mounted, it needs no name any more.
    _ = std::fs::remove_dir_all(&directory);
    shown
}

/// A new directory for temporary files that only this user can write to. Creating it follows no link, and fails if the
/// name exists: another user can choose it, too.
fn private_directory() -> anyhow::Result<PathBuf> {
    for attempt in 0..MOST_ATTEMPTS {
        let directory = std::env::temp_dir().join(format!("portolan-{}-{attempt}", std::process::id()));
        match system::create_private_directory(&directory) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            outcome => {
                outcome.with_context(|| format!("creating {}", directory.display()))?;
                return Ok(directory);
            }
        }
    }
    bail!("creating a directory in {}: all names are taken", std::env::temp_dir().display())
}

/// As kubelet writes it for dnsPolicy ClusterFirst.
fn resolv_conf(server: IpAddr, namespace: &str, domain: &str, host: &str) -> String {
    let domain = domain.trim_end_matches('.');
    let own = [format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.to_owned()];
    let lists = host.lines().filter_map(|line| line.trim().strip_prefix("search"));
    let theirs = lists.flat_map(str::split_whitespace).filter(|it| *it != ".").map(str::to_owned);
    let searched: Vec<String> = own.into_iter().chain(theirs).take(MOST_SEARCHED).collect();
    format!("search {}\nnameserver {server}\noptions ndots:5\n", searched.join(" "))
}

/// From manifests, from an API server, or from the running daemon.
fn found(which: &WhichFlags) -> anyhow::Result<Variables> {
    let links = which.enable_service_links;
    if !which.facts.manifests.manifests.is_empty() {
        return from_manifests(which);
    }
    ensure!(which.pod.is_none(), "--pod needs --manifests; without them, use --enable-service-links=false instead");
    if which.server.kubeconfig.is_some() || which.server.master.is_some() {
        return Ok(variables(&from_cluster(which)?, &which.namespace, links));
    }
    let question = Question::Environment { namespace: which.namespace.clone(), links };
    match query(&which.control.control_socket, &question)? {
        Answer::Environment(variables) => Ok(variables),
        other => unexpected(&other).map(|_| Vec::new()),
    }
}

fn from_manifests(which: &WhichFlags) -> anyhow::Result<Variables> {
    let mut manifests = Manifests::new(source_options(&which.facts, Keep::Nothing)?);
    for problem in &manifests.reload().new_problems {
        eprintln!("portolan: {problem}");
    }
    require_all(&manifests)?;
    let mut links = which.enable_service_links;
    if let Some(pod) = &which.pod {
        let namespace = &which.namespace;
        let has_links = manifests.has_service_links(namespace, pod);
        links &= has_links.with_context(|| format!("there is no Pod {namespace}/{pod} in the manifests"))?;
    }
    Ok(variables(&manifests.snapshot(), &which.namespace, links))
}

fn from_cluster(which: &WhichFlags) -> anyhow::Result<Snapshot> {
    let options = ClusterOptions {
        node_name: node_name(which.facts.hostname_override.as_deref())?,
        kubeconfig: which.server.kubeconfig.clone(),
        master: which.server.master.clone(),
        content_type: ContentType::Protobuf,
        qps: 50.0,
        burst: 100,
        names: Names::OfServices,
    };
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let notify = move || _ = sender.try_send(());
    let cluster = Cluster::start(options, &runtime::start()?, notify).context("connecting to the API server")?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(snapshot) = cluster.snapshot() {
            return Ok(snapshot);
        }
        if receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_err() {
            bail!("the API server has not sent all Services within {TIMEOUT:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_list_is_that_of_a_pod() {
        let host = "nameserver 192.0.2.1\nsearch corp.example .\noptions edns0\n";
        let text = resolv_conf([169, 254, 20, 10].into(), "shop", "cluster.local.", host);
        let expected = "search shop.svc.cluster.local svc.cluster.local cluster.local corp.example\n\
            nameserver 169.254.20.10\noptions ndots:5\n";
        assert_eq!(text, expected);
    }
}
