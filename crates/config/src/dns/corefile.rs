//! The Corefile: server blocks for zones, each with a list of plugins.

use super::block::Block;
use super::directive::{Directive, parse};
use super::reader::Reader;
use super::{DnsDocument, forward, plugins};
use crate::notice::Notice;

/// The supported settings of the file, and notices for lines without effect. A line that restricts what is served, and
/// that is not supported, is an error: to ignore it would serve what the operator withholds.
pub fn from_corefile(file: &str, text: &str) -> Result<(DnsDocument, Vec<Notice>), String> {
    let servers = parse(text).map_err(|(line, reason)| format!("{file}:{line}: {reason}"))?;
    let mut reader = Reader { file, document: DnsDocument::default(), notices: Vec::new(), errors: Vec::new() };
    let blocks: Vec<Block<'_>> = servers.iter().map(|server| Block::read(&mut reader, server)).collect();
    check_ports(&mut reader, &blocks);
    for block in &blocks {
        read_block(&mut reader, block, &blocks);
    }
    forward::close_zones(&mut reader, &blocks);
    check_cluster(&mut reader, &servers);
    listen(&mut reader, &blocks);
    if reader.errors.is_empty() { Ok((reader.document, reader.notices)) } else { Err(reader.errors.join("\n")) }
}

fn read_block(reader: &mut Reader<'_>, block: &Block<'_>, all: &[Block<'_>]) {
    let is_stub = !block.is_root() && !block.has("kubernetes");
    if is_stub && !block.has("forward") {
        reader.unsupported(block.server, "a block without kubernetes and without forward has no effect");
    }
    for plugin in &block.server.block {
        if is_stub {
            plugins::read_in_stub(reader, block, all, plugin);
        } else {
            plugins::read(reader, block, all, plugin);
        }
    }
}

fn check_ports(reader: &mut Reader<'_>, blocks: &[Block<'_>]) {
    let Some(first) = blocks.first() else { return };
    for block in blocks.iter().filter(|block| block.ports != first.ports || block.ports.len() > 1) {
        reader.refuse(block.server, "all server blocks must have the same port: run one process for each port");
    }
    for block in blocks.iter().filter(|block| block.binds() != first.binds()) {
        reader.refuse(block.server, "all server blocks must have the same bind: run one process for each");
    }
}

fn check_cluster(reader: &mut Reader<'_>, servers: &[Directive]) {
    let plugins = || servers.iter().flat_map(|server| &server.block).filter(|plugin| plugin.name() == "kubernetes");
    for second in plugins().skip(1) {
        reader.refuse(second, "only one kubernetes plugin is supported");
    }
    if let Some(first) = servers.first().filter(|_| plugins().next().is_none()) {
        reader.refuse(first, "no server block has the kubernetes plugin, so no cluster names are served");
    }
}

fn listen(reader: &mut Reader<'_>, blocks: &[Block<'_>]) {
    let Some(block) = blocks.first() else { return };
    let port = block.ports.first().copied().unwrap_or(53);
    let at = |address: &String| match address.contains(':') {
        true => format!("[{address}]:{port}"),
        false => format!("{address}:{port}"),
    };
    let bound: Vec<String> = block.binds().iter().map(at).collect();
    reader.document.listen = if bound.is_empty() { vec![format!(":{port}")] } else { bound };
}
