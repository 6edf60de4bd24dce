//! One line of a `packets` section: `SOURCE -> DESTINATION:PORT/PROTOCOL FATE`, and after a bar a different fate in one
//! mode: `… FATE | ipvs FATE`.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use crate::topology;

/// The sections with golden text: the modes of the dataplane.
pub(crate) const MODES: &[&str] = &["nftables", "iptables", "ipvs", "ebpf", "userspace", "kernelspace"];

/// A packet and its expected fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketLine {
    pub line_number: usize,
    pub source: Source,
    pub destination: SocketAddr,
    pub protocol: Protocol,
    pub expected: Expected,
    /// Fates in single modes.
    pub exceptions: Vec<(String, Expected)>,
}

/// The source of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The host that owns the address, also when the line has the address itself; none for an address of no host.
    pub name: Option<String>,
    pub address: IpAddr,
    /// The interface on which node-a receives the packet; none when node-a itself sends it.
    pub interface: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

/// The fate of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// One of the endpoints receives it. With `masquerade` the endpoint sees an address of node-a as the source,
    /// without it the sender's own address. Shares are in thousandths, in the order of the endpoints; without any, all
    /// endpoints have the same.
    Forward { endpoints: Vec<SocketAddr>, shares: Vec<u32>, masquerade: bool },
    /// The sender gets a reset or "port unreachable".
    Reject(String),
    /// No answer.
    Drop(String),
    /// No rule of ours applies, and the packet continues unchanged.
    Pass,
}

impl PacketLine {
    /// Parses one line; none if it has only a comment. The error is the reason alone, as the caller knows the file.
    pub(crate) fn parse(line_number: usize, line: &str) -> Result<Option<PacketLine>, String> {
        let content = line.split('#').next().unwrap_or_default();
        let words: Vec<&str> = content.split_whitespace().collect();
        match words[..] {
            [] => Ok(None),
            [source, "->", destination, ref fate @ ..] => {
                let (destination, protocol) = parse_destination(destination)?;
                let source = Source::parse(source, destination.ip())?;
                let mut fates = fate.split(|word| *word == "|");
                let expected = Expected::parse(fates.next().unwrap_or_default(), destination.ip())?;
                let exceptions =
                    fates.map(|words| parse_exception(words, destination.ip())).collect::<Result<_, _>>()?;
                Ok(Some(PacketLine { line_number, source, destination, protocol, expected, exceptions }))
            }
            _ => Err(format!("expected `SOURCE -> ADDRESS:PORT/PROTOCOL FATE`, found `{}`", content.trim())),
        }
    }
}

impl PacketLine {
    /// The line for one mode.
    pub fn in_mode(&self, mode: &str) -> PacketLine {
        let exception = self.exceptions.iter().find(|(name, _)| name == mode);
        let expected = exception.map_or(&self.expected, |(_, expected)| expected).clone();
        PacketLine { expected, ..self.clone() }
    }
}

fn parse_exception(words: &[&str], destination: IpAddr) -> Result<(String, Expected), String> {
    match words {
        [mode, fate @ ..] if MODES.contains(mode) => Ok(((*mode).to_owned(), Expected::parse(fate, destination)?)),
        _ => Err(format!("after a bar, write one of {}, and a fate", MODES.join(", "))),
    }
}

impl Source {
    /// Parses a host's name or an address, in the family of the destination.
    pub fn parse(text: &str, destination: IpAddr) -> Result<Source, String> {
        if let Some(host) = topology::by_name(text) {
            return Ok(Source::at(host.address_toward(destination)));
        }
        let address: IpAddr = text.parse().map_err(|_| {
            format!("`{text}` is not a source; allowed are an IP address or one of {}", topology::names())
        })?;
        same_family("source", address, destination)?;
        Ok(Source::at(address))
    }

    /// Whether it is node-a or one of its pods.
    pub fn is_on_node(&self) -> bool {
        self.name.as_deref().is_some_and(topology::is_on_node)
    }

    /// An address of no host arrives from outside, by node-a's default route.
    fn at(address: IpAddr) -> Source {
        let host = topology::by_address(address);
        let interface = host.map_or(Some("eth2"), |host| host.interface);
        Source { name: host.map(|host| host.name.to_owned()), address, interface: interface.map(str::to_owned) }
    }
}

impl Expected {
    fn parse(words: &[&str], destination: IpAddr) -> Result<Expected, String> {
        match *words {
            ["forward", ref rest @ ..] => Expected::parse_forward(rest, destination),
            ["reject", reason] => Ok(Expected::Reject(reason.to_owned())),
            ["drop", reason] => Ok(Expected::Drop(reason.to_owned())),
            ["reject" | "drop", ..] => {
                Err(format!("`{}` takes one reason, for example `{} no-endpoints`", words[0], words[0]))
            }
            ["pass"] => Ok(Expected::Pass),
            _ => Err(format!(
                "`{}` is not a fate; allowed are `forward ENDPOINT... [masquerade]`, `reject REASON`, `drop REASON` and `pass`",
                words.join(" ")
            )),
        }
    }

    fn parse_forward(words: &[&str], destination: IpAddr) -> Result<Expected, String> {
        let (endpoints, masquerade) = match words {
            [endpoints @ .., "masquerade"] => (endpoints, true),
            endpoints => (endpoints, false),
        };
        if endpoints.is_empty() {
            return Err("`forward` needs at least one endpoint, for example `forward 10.244.1.2:8080`".to_owned());
        }
        let (shares, endpoints): (Vec<&str>, Vec<&str>) = endpoints.iter().partition(|word| word.ends_with('%'));
        let shares: Vec<u32> = shares.into_iter().map(parse_share).collect::<Result<_, _>>()?;
        if !shares.is_empty() && shares.len() != endpoints.len() {
            return Err("either every endpoint has a share, as in `10.244.1.2:8080 75%`, or none has one".to_owned());
        }
        let endpoints = endpoints.iter().map(|word| parse_endpoint(word, destination)).collect::<Result<_, _>>()?;
        Ok(Expected::Forward { endpoints, shares, masquerade })
    }
}

fn parse_destination(text: &str) -> Result<(SocketAddr, Protocol), String> {
    let allowed = "allowed are `ADDRESS:PORT/PROTOCOL` and `[ADDRESS]:PORT/PROTOCOL` with tcp, udp or sctp";
    let no_destination = || format!("`{text}` is not a destination; {allowed}");
    let (address, protocol) = text.split_once('/').ok_or_else(no_destination)?;
    let address = address.parse().map_err(|_| no_destination())?;
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return Err(no_destination()),
    };
    Ok((address, protocol))
}

fn parse_endpoint(text: &str, destination: IpAddr) -> Result<SocketAddr, String> {
    let endpoint: SocketAddr = text.parse().map_err(|_| {
        format!(
            "`{text}` is not an endpoint; allowed are `ADDRESS:PORT`, `[ADDRESS]:PORT` and, as the last word, `masquerade`"
        )
    })?;
    same_family("endpoint", endpoint.ip(), destination)?;
    Ok(endpoint)
}

fn parse_share(text: &str) -> Result<u32, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    let percent = percent.ok_or_else(|| format!("`{text}` is not a share; write percent, for example `12.5%`"))?;
    Ok((percent * 10.0).round() as u32)
}

fn same_family(what: &str, address: IpAddr, destination: IpAddr) -> Result<(), String> {
    if address.is_ipv4() == destination.is_ipv4() {
        return Ok(());
    }
    Err(format!("{what} {address} and destination {destination} are of different address families"))
}

impl fmt::Display for Protocol {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Sctp => "sctp",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(formatter, "{name} ({})", self.address),
            None => write!(formatter, "{}", self.address),
        }
    }
}

/// The packet without its fate, for messages: `client (203.0.113.9) -> 10.96.0.10:80/tcp`.
impl fmt::Display for PacketLine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} -> {}/{}", self.source, self.destination, self.protocol)
    }
}
