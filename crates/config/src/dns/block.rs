//! A server block and its keys: the zones and the port that it serves.

use super::directive::Directive;
use super::reader::Reader;

pub(super) const ROOT: &str = ".";

pub(super) struct Block<'a> {
    pub(super) server: &'a Directive,
    /// In lower case, without the trailing dot; the root is a dot.
    pub(super) zones: Vec<String>,
    /// Without duplicates.
    pub(super) ports: Vec<u16>,
}

impl<'a> Block<'a> {
    pub(super) fn read(reader: &mut Reader<'_>, server: &'a Directive) -> Self {
        let mut block = Self { server, zones: Vec::new(), ports: Vec::new() };
        if server.name().starts_with('(') || server.name() == "import" {
            reader.refuse(server, "snippets and import are not supported: write the lines in their place");
            return block;
        }
        for key in &server.words {
            match parse_key(key) {
                Ok((zone, port)) => {
                    block.zones.push(zone);
                    block.ports.push(port);
                }
                Err(reason) => reader.refuse(server, reason),
            }
        }
        block.ports.sort_unstable();
        block.ports.dedup();
        block
    }

    pub(super) fn is_root(&self) -> bool {
        self.zones.iter().any(|zone| zone == ROOT)
    }

    pub(super) fn has(&self, plugin: &str) -> bool {
        self.server.block.iter().any(|it| it.name() == plugin)
    }

    pub(super) fn serves(&self, name: &str) -> bool {
        self.zones.iter().any(|zone| is_within(name, zone))
    }

    /// The addresses of `bind`.
    pub(super) fn binds(&self) -> Vec<String> {
        let binds = self.server.block.iter().filter(|plugin| plugin.name() == "bind");
        binds.flat_map(|plugin| plugin.arguments().to_vec()).collect()
    }
}

/// `ZONE`, `ZONE:PORT`, `:PORT` or `dns://ZONE:PORT`.
fn parse_key(key: &str) -> Result<(String, u16), &'static str> {
    let key = key.strip_prefix("dns://").unwrap_or(key);
    if key.contains("://") {
        return Err("only plain DNS is served, not tls://, https://, quic:// or grpc://");
    }
    if key.contains('/') {
        return Err("write the name of the reverse zone instead of an address range");
    }
    let (zone, port) = match key.rsplit_once(':') {
        Some((zone, port)) => (zone, port.parse().map_err(|_| "the port is not a number below 65536")?),
        None => (key, 53),
    };
    Ok((normalized(zone), port))
}

/// In lower case and without the trailing dot.
pub(super) fn normalized(zone: &str) -> String {
    match zone.trim_end_matches('.') {
        "" => ROOT.to_owned(),
        zone => zone.to_ascii_lowercase(),
    }
}

pub(super) fn is_within(name: &str, zone: &str) -> bool {
    zone == ROOT || name.strip_suffix(zone).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}
