//! How the connections of a Service are balanced. Each setting is optional: what a Service leaves out has the operator's
//! default, which is a [`Balancing`], too.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::PlaceWeights;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balancing {
    pub algorithm: Option<Algorithm>,
    pub hash: Option<HashOf>,
    /// The number of slots of a Maglev table.
    pub table_size: Option<TableSize>,
    pub places: PlaceWeights,
    /// How long the weight of a new endpoint grows; zero is off.
    pub slow_start: Option<Duration>,
    /// Whether endpoints that do not answer get no new connections.
    pub quarantine: Option<bool>,
    pub removed_connections: Option<RemovedConnections>,
    pub rebalance: Option<Rebalance>,
}

/// How the endpoint of a new connection is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    #[default]
    Random,
    RoundRobin,
    /// By a hash of the client, modulo the endpoints.
    SourceHash,
    /// By a hash of the client, in a table that moves few clients when endpoints come and go.
    Maglev,
    LeastConnections,
}

/// What of a client is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashOf {
    #[default]
    Client,
    ClientAndPort,
}

/// The number of slots of a Maglev table: a prime, of those that the kernel's own Maglev scheduler can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableSize(u32);

impl TableSize {
    const ALL: [u32; 9] = [251, 509, 1021, 2039, 4093, 8191, 16_381, 32_749, 65_521];

    pub fn slots(self) -> u32 {
        self.0
    }
}

/// What happens to open connections of an endpoint that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RemovedConnections {
    #[default]
    Keep,
    /// Both sides get a TCP reset, after a while.
    Reset(Duration),
}

/// Whether idle connections of loaded endpoints are ended when endpoints were added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rebalance {
    #[default]
    Off,
    /// Connections that have been idle for as long.
    Idle(Duration),
}

impl Rebalance {
    /// What `on` means.
    const DEFAULT_IDLE: Duration = Duration::from_secs(60);
}

impl Balancing {
    /// These settings, with defaults for what they leave out.
    pub fn or(&self, defaults: &Self) -> Self {
        Self {
            algorithm: self.algorithm.or(defaults.algorithm),
            hash: self.hash.or(defaults.hash),
            table_size: self.table_size.or(defaults.table_size),
            places: self.places.clone(),
            slow_start: self.slow_start.or(defaults.slow_start),
            quarantine: self.quarantine.or(defaults.quarantine),
            removed_connections: self.removed_connections.or(defaults.removed_connections),
            rebalance: self.rebalance.or(defaults.rebalance),
        }
    }
}

/// A text that is none of these settings, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl Algorithm {
    pub const ALL: [Self; 5] = [Self::Random, Self::RoundRobin, Self::SourceHash, Self::Maglev, Self::LeastConnections];

    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round-robin",
            Self::SourceHash => "source-hash",
            Self::Maglev => "maglev",
            Self::LeastConnections => "least-connections",
        }
    }
}

impl FromStr for Algorithm {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name() == text.trim());
        found.ok_or_else(|| Malformed(format!("{text:?} is not an algorithm ({})", names())))
    }
}

impl FromStr for HashOf {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        match text.trim() {
            "client" => Ok(Self::Client),
            "client-and-port" => Ok(Self::ClientAndPort),
            _ => Err(Malformed(format!("{text:?} is neither client nor client-and-port"))),
        }
    }
}

impl FromStr for TableSize {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let sizes = || Self::ALL.map(|size| size.to_string()).join(", ");
        let found = Self::ALL.into_iter().find(|size| size.to_string() == text.trim());
        found.map(Self).ok_or_else(|| Malformed(format!("{text:?} is not the size of a table ({})", sizes())))
    }
}

impl FromStr for RemovedConnections {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed(format!("{text:?} is not keep, reset or a time such as reset-after=30s"));
        match text.trim() {
            "keep" => Ok(Self::Keep),
            "reset" => Ok(Self::Reset(Duration::ZERO)),
            text => {
                let time = text.strip_prefix("reset-after=").ok_or_else(malformed)?;
                duration(time).map(Self::Reset).map_err(|_| malformed())
            }
        }
    }
}

/// As in the annotation.
impl fmt::Display for RemovedConnections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => formatter.write_str("keep"),
            Self::Reset(Duration::ZERO) => formatter.write_str("reset"),
            Self::Reset(time) => write!(formatter, "reset-after={}", in_units(*time)),
        }
    }
}

/// As in the annotation.
impl fmt::Display for Rebalance {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::Idle(time) => write!(formatter, "idle={}", in_units(*time)),
        }
    }
}

impl FromStr for Rebalance {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed(format!("{text:?} is not on, off or a time such as idle=30s"));
        match text.trim().strip_prefix("idle=") {
            Some(time) => duration(time).map(Self::Idle).map_err(|_| malformed()),
            None if switch(text).map_err(|_| malformed())? => Ok(Self::Idle(Self::DEFAULT_IDLE)),
            None => Ok(Self::Off),
        }
    }
}

/// `on` or `off`.
pub fn switch(text: &str) -> Result<bool, Malformed> {
    match text.trim() {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err(Malformed(format!("{text:?} is neither on nor off"))),
    }
}

/// The longest time that a setting can have.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

/// A number with a unit: `30s`, `500ms`, `5m`. `0` needs no unit.
pub fn duration(text: &str) -> Result<Duration, Malformed> {
    let malformed = || Malformed(format!("{text:?} is not a time from 0s to 24h, such as 30s"));
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| malformed())?;
    let unit = UNITS.iter().find(|(unit, _)| *unit == &text[digits..]).map(|(_, milliseconds)| *milliseconds);
    let unit = unit.or((text == "0").then_some(1)).ok_or_else(malformed)?;
    let time = number.checked_mul(unit).map(Duration::from_millis).filter(|time| *time <= LONGEST);
    time.ok_or_else(malformed)
}

/// What [`duration`] reads.
fn in_units(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        assert_eq!(" maglev ".parse(), Ok(Algorithm::Maglev));
        assert_eq!("reset-after=30s".parse(), Ok(RemovedConnections::Reset(Duration::from_secs(30))));
        assert_eq!("on".parse(), Ok(Rebalance::Idle(Rebalance::DEFAULT_IDLE)));
        assert_eq!("idle=500ms".parse(), Ok(Rebalance::Idle(Duration::from_millis(500))));
        assert_eq!(["0", "0s", "2m", "24h"].map(|text| duration(text).unwrap().as_secs()), [0, 0, 120, 86_400]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "30", "-1s", "s", "25h", "99999999999999999999s", "18446744073709551615h", "3 s", "1é"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert!("Maglev".parse::<Algorithm>().is_err());
        assert!("250".parse::<TableSize>().is_err() && "65521".parse::<TableSize>().is_ok());
        assert!("reset-after=".parse::<RemovedConnections>().is_err());
        assert!("sometimes".parse::<Rebalance>().is_err());
    }
}
