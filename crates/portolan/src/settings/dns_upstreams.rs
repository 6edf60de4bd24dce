//! Other DNS servers, as the operator or `/etc/resolv.conf` names them.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, bail};
use portolan_dns::wire::Name;

const PORT: u16 = 53;

/// Servers by address, or those that a file names.
pub(super) fn servers(words: &[String]) -> anyhow::Result<Vec<SocketAddr>> {
    let mut servers = Vec::new();
    for word in words {
        if let Some(address) = address(word) {
            servers.push(address);
        } else if word.starts_with('/') {
            servers.extend(nameservers(&read(Path::new(word))?));
        } else if word != "none" {
            bail!("{word:?} is not a DNS server: write ADDRESS, ADDRESS:PORT, or a file such as /etc/resolv.conf");
        }
    }
    Ok(servers)
}

/// `ADDRESS` or `ADDRESS:PORT`.
pub(super) fn address(word: &str) -> Option<SocketAddr> {
    let alone = || word.trim_matches(['[', ']']).parse().ok().map(|address: IpAddr| SocketAddr::new(address, PORT));
    word.parse().ok().or_else(alone)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading the DNS servers in {}", path.display()))
}

fn nameservers(text: &str) -> Vec<SocketAddr> {
    text.lines().filter_map(|line| address(line.trim().strip_prefix("nameserver")?.trim())).collect()
}

/// The host's own search list, which the search list of its pods ends with.
pub(super) fn search_list(path: &Path) -> Vec<Name> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lists = text.lines().filter_map(|line| line.trim().strip_prefix("search"));
    let names = lists.flat_map(str::split_whitespace).filter_map(|name| Name::from_text(name).ok());
    names.filter(|name| !name.is_root()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_in_several_ways() {
        let words = ["192.0.2.1", "192.0.2.2:5353", "2001:db8::1", "[2001:db8::2]:54"].map(str::to_owned);
        let servers: Vec<String> = servers(&words).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "192.0.2.2:5353", "[2001:db8::1]:53", "[2001:db8::2]:54"]);
        let text =
            "# why\nsearch a.example b.example\nnameserver 192.0.2.3\nnameserver fe80::1%eth0\noptions ndots:5\n";
        assert_eq!(nameservers(text), ["192.0.2.3:53".parse().unwrap()]);
        assert!(super::servers(&["dns.example".to_owned()]).is_err());
    }
}
