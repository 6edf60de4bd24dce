//! How Services are balanced that have no annotation about it.

use std::time::Duration;

use clap::Args;
use portolan_model::{
    Algorithm, Balancing, HashOf, Malformed, Rebalance, RemovedConnections, TableSize, duration, switch,
};

#[derive(Args, Clone, Debug, Default)]
pub struct BalancingFlags {
    /// How new connections are shared among endpoints: random, round-robin, source-hash, maglev or least-connections
    /// [default: that of the mode]
    #[arg(long, value_name = "ALGORITHM", value_parser = parsed::<Algorithm>)]
    pub balancing_algorithm: Option<Algorithm>,
    /// What of a client is hashed: client or client-and-port [default: client]
    #[arg(long, value_name = "OF", value_parser = parsed::<HashOf>)]
    pub balancing_hash: Option<HashOf>,
    /// The number of slots of a Maglev table [default: 8191, and 65521 for more than 24 endpoints]
    #[arg(long, value_name = "SLOTS", value_parser = parsed::<TableSize>)]
    pub maglev_table_size: Option<TableSize>,
    /// How long the weight of a new endpoint grows [default: 0s, which is off]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub slow_start: Option<Duration>,
    /// Whether endpoints that do not answer get no new connections for a while: on or off [default: off]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    pub quarantine: Option<bool>,
    /// What happens to open connections of endpoints that are gone: keep, reset or reset-after=TIME [default: keep]
    #[arg(long, value_name = "WHAT", value_parser = parsed::<RemovedConnections>)]
    pub connections_of_removed_endpoints: Option<RemovedConnections>,
    /// Whether idle connections of loaded endpoints end when endpoints are added: off, on or idle=TIME [default: off]
    #[arg(long, value_name = "WHAT", value_parser = parsed::<Rebalance>)]
    pub rebalance: Option<Rebalance>,
}

impl BalancingFlags {
    pub fn balancing(&self) -> Balancing {
        Balancing {
            algorithm: self.balancing_algorithm,
            hash: self.balancing_hash,
            table_size: self.maglev_table_size,
            slow_start: self.slow_start,
            quarantine: self.quarantine,
            removed_connections: self.connections_of_removed_endpoints,
            rebalance: self.rebalance,
            ..Balancing::default()
        }
    }
}

fn parsed<T: std::str::FromStr<Err = Malformed>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|Malformed(reason)| reason)
}

fn time(text: &str) -> Result<Duration, String> {
    duration(text).map_err(|Malformed(reason)| reason)
}

fn on_or_off(text: &str) -> Result<bool, String> {
    switch(text).map_err(|Malformed(reason)| reason)
}
