//! The state file: the addresses and node ports of every Service, which a restart must not change.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use portolan_model::{Protocol, ServiceName};
use serde::{Deserialize, Serialize, Serializer};

use super::holding::Holding;
use crate::intern::Interner;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    #[serde(rename = "clusterIPs", default, skip_serializing_if = "Vec::is_empty")]
    cluster_ips: Vec<IpAddr>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    node_ports: Vec<StoredPort>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health_check_node_port: Option<u16>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredPort {
    protocol: String,
    port: u16,
    node_port: u16,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StateError {
    #[error("cannot read the state file: {0}")]
    Unreadable(#[source] io::Error),
    #[error("the state file is corrupt and its allocations are lost: {0}")]
    Corrupt(#[source] serde_json::Error),
    #[error(
        "cannot write the state file: {0}; a restart may change allocated addresses and node ports until it is written \
         (make the directory writable, free space there, or use another --state-directory)"
    )]
    Unwritable(#[source] io::Error),
}

pub(crate) fn path(directory: &Path) -> PathBuf {
    directory.join("allocations.json")
}

/// A missing file is an empty one.
pub(crate) fn load(directory: &Path) -> Result<BTreeMap<ServiceName, Holding>, StateError> {
    let text = match fs::read(path(directory)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read.map_err(StateError::Unreadable)?,
    };
    let stored: BTreeMap<String, Stored> = serde_json::from_slice(&text).map_err(StateError::Corrupt)?;
    let mut names = Interner::default();
    Ok(stored.into_iter().filter_map(|(name, stored)| Some((parse_name(&name, &mut names)?, parse(stored)))).collect())
}

fn parse_name(text: &str, names: &mut Interner) -> Option<ServiceName> {
    let (namespace, name) = text.split_once('/')?;
    Some(ServiceName { namespace: names.share(namespace), name: name.into() })
}

fn parse(stored: Stored) -> Holding {
    let ports = stored.node_ports.into_iter();
    let node_ports =
        ports.filter_map(|port| Some((port.protocol.parse::<Protocol>().ok()?, port.port, port.node_port)));
    let node_ports = node_ports.collect();
    Holding { addresses: stored.cluster_ips, node_ports, health_port: stored.health_check_node_port }
}

/// Renames a corrupt file, so that it can be examined.
pub(crate) fn put_aside(directory: &Path) {
    let path = path(directory);
    let aside = path.with_extension("json.corrupt");
    if let Err(error) = fs::rename(&path, &aside) {
        tracing::warn!(path = %path.display(), %error, "cannot rename the corrupt state file");
    }
}

/// Writes a new file and renames it over the old one, so that a crash leaves one or the other.
pub(crate) fn save<'a>(
    directory: &Path,
    holdings: impl Iterator<Item = (&'a ServiceName, Holding)>,
) -> Result<(), StateError> {
    write(directory, holdings).map_err(StateError::Unwritable)
}

fn write<'a>(directory: &Path, holdings: impl Iterator<Item = (&'a ServiceName, Holding)>) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let path = path(directory);
    let temporary = path.with_extension("json.new");
    let written = write_all(&temporary, holdings).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // It takes room that may be what is short.
        _ = fs::remove_file(&temporary);
    }
    written
}

fn write_all<'a>(path: &Path, holdings: impl Iterator<Item = (&'a ServiceName, Holding)>) -> io::Result<()> {
    let mut writer = BufWriter::new(File::create(path)?);
    let entries = holdings.map(|(name, holding)| (name.to_string(), unparse(holding)));
    serde_json::Serializer::pretty(&mut writer).collect_map(entries)?;
    writer.write_all(b"\n")?;
    writer.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

fn unparse(holding: Holding) -> Stored {
    let port = |(protocol, port, node_port): (Protocol, u16, u16)| StoredPort {
        protocol: protocol.to_string(),
        port,
        node_port,
    };
    Stored {
        cluster_ips: holding.addresses,
        node_ports: holding.node_ports.into_iter().map(port).collect(),
        health_check_node_port: holding.health_port,
    }
}
