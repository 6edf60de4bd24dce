//! `portolan proxy`: from the command line to the run loop.

use std::path::Path;

use anyhow::{Context, bail};
use portolan_config::KUBERNETES_VERSION;

use crate::commands;
use crate::exit::{PROXY_FAILURE, SUCCESS};
use crate::flags::{Output, OutputFlags, ProxyFlags};
use crate::settings::Settings;
use crate::{daemon, log, system};

pub(crate) fn run(flags: &ProxyFlags) -> anyhow::Result<u8> {
    if let Some(answer) = version(flags.kube_proxy.0.text("version"))? {
        println!("{answer}");
        return Ok(SUCCESS);
    }
    let settings = Settings::read(flags)?;
    if let Some(path) = system::log_file(settings.runs_as_service, &flags.manifests.state_directory) {
        log::write_to(&path).with_context(|| format!("opening the log {}", path.display()))?;
    }
    log::start(&settings.log);
    log::notices(&settings.notices);
    if let Some(path) = &settings.actions.write_config_to {
        return write_config(path, &settings);
    }
    if settings.actions.cleanup {
        let status = commands::cleanup_all(&settings.control_socket, &OutputFlags { output: Output::Text })?;
        return Ok(if status == SUCCESS { SUCCESS } else { PROXY_FAILURE });
    }
    system::run(settings.runs_as_service, || daemon::run(settings))
}

/// What `--version` prints, if it is given. Unlike kube-proxy, the reported version cannot be set.
fn version(given: Option<&str>) -> anyhow::Result<Option<String>> {
    let own = env!("CARGO_PKG_VERSION");
    Ok(match given {
        None | Some("false") => None,
        Some("true") => Some(format!("Kubernetes {KUBERNETES_VERSION} (portolan {own})")),
        Some("raw") => {
            let mut parts = KUBERNETES_VERSION.trim_start_matches('v').split('.');
            let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            Some(format!(
                "version.Info{{Major:\"{major}\", Minor:\"{minor}\", GitVersion:\"{KUBERNETES_VERSION}\", \
                 Portolan:\"{own}\", Platform:\"{}/{}\"}}",
                std::env::consts::OS,
                std::env::consts::ARCH,
            ))
        }
        Some(text) if text.starts_with('v') => None,
        Some(text) => bail!("--version={text}: write --version or --version=raw"),
    })
}

fn write_config(path: &Path, settings: &Settings) -> anyhow::Result<u8> {
    std::fs::write(path, settings.to_yaml())
        .with_context(|| format!("writing the configuration to {}", path.display()))?;
    tracing::info!(file = %path.display(), "Wrote configuration");
    Ok(SUCCESS)
}
