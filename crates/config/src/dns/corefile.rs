//! The Corefile: server blocks for zones, each with a list of plugins.

use super::DnsDocument;
use super::directive::{Directive, parse};
use super::plugins::{self, Reader};
use crate::notice::Notice;

/// The supported settings of the file, and notices for the others. Only a syntax error is an error.
pub fn from_corefile(file: &str, text: &str) -> Result<(DnsDocument, Vec<Notice>), String> {
    let servers = parse(text).map_err(|(line, reason)| format!("{file}:{line}: {reason}"))?;
    let mut reader = Reader { file, document: DnsDocument::default(), notices: Vec::new() };
    servers.iter().for_each(|server| read_server(&mut reader, server));
    Ok((reader.document, reader.notices))
}

fn read_server(reader: &mut Reader<'_>, server: &Directive) {
    let is_root = server.words.iter().any(|word| is_root(word));
    if is_root {
        reader.document.listen = vec![listen_address(&server.words)];
    }
    // A block for another zone without the kubernetes plugin is a stub domain.
    let has_cluster = server.block.iter().any(|plugin| plugin.name() == "kubernetes");
    if !is_root && !has_cluster {
        return plugins::stub(reader, server);
    }
    for plugin in &server.block {
        plugins::read(reader, plugin);
    }
}

fn listen_address(keys: &[String]) -> String {
    let ports = keys.iter().filter_map(|key| key.rsplit_once(':')).map(|(_, port)| port);
    let port = ports.filter_map(|port| port.parse::<u16>().ok()).next().unwrap_or(53);
    format!(":{port}")
}

/// `.`, `.:53`, `dns://.:53`.
fn is_root(key: &str) -> bool {
    let key = key.strip_prefix("dns://").unwrap_or(key);
    matches!(key.split(':').next(), Some("." | ""))
}
