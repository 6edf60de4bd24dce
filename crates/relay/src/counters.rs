//! Counters of each listener.

/// The counters of one listener. All but `active` are monotonic.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counters {
    /// Accepted clients; for UDP, created associations.
    pub connections: u64,
    /// Those that have not ended.
    pub active: u64,
    pub bytes_from_clients: u64,
    pub bytes_to_clients: u64,
    /// Dials to a further endpoint because the previous one did not answer.
    pub retries: u64,
    /// Endpoints that refused, were unreachable or did not answer in time.
    pub dial_errors: u64,
    /// Clients rejected because no endpoint answered.
    pub failed: u64,
    /// How often clients waited in the accept queue because of the connection limit, and connections reset and
    /// datagrams dropped for the same reason.
    pub refused_at_limit: u64,
}

/// What one endpoint of a listener has carried.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EndpointCounters {
    pub connections: u64,
    pub bytes_from_clients: u64,
    pub bytes_to_clients: u64,
}
