//! The settings of the cache.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// The number of cached answers with records; 0 disables caching them.
    pub capacity: usize,
    /// The number of negative answers and failures.
    pub negative_capacity: usize,
    /// The memory of all answers, in octets: three quarters for those with records, a quarter for the others.
    pub max_octets: usize,
    pub max_ttl: Duration,
    pub max_negative_ttl: Duration,
    pub min_ttl: Duration,
    /// How long an expired answer may be served while no upstream answers.
    pub serve_stale: Duration,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            capacity: 9984,
            negative_capacity: 9984,
            max_octets: 16 << 20,
            max_ttl: Duration::from_secs(3600),
            max_negative_ttl: Duration::from_secs(1800),
            min_ttl: Duration::from_secs(5),
            serve_stale: Duration::from_secs(3600),
        }
    }
}
