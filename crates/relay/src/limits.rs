//! Limits of the relay.

use std::time::Duration;

/// The value of `--udp-timeout` in kube-proxy's userspace mode.
const UDP_IDLE: Duration = Duration::from_millis(250);

/// kube-proxy's defaults of `conntrack.tcpEstablishedTimeout` and `conntrack.tcpCloseWaitTimeout`: in other modes
/// connection tracking forgets such connections.
const TCP_IDLE: Duration = Duration::from_secs(24 * 60 * 60);
const TCP_HALF_CLOSED: Duration = Duration::from_secs(60 * 60);

#[derive(Clone, Debug)]
pub struct Limits {
    /// Concurrent connections and UDP associations. It is lowered to what the descriptor limit allows, which is also
    /// the default.
    pub connections: usize,
    /// A UDP association ends after this time without a datagram in either direction.
    pub udp_idle: Duration,
    /// A TCP connection is reset after this time without a byte in either direction; zero means never. Keepalive ends
    /// connections of vanished peers much earlier.
    pub tcp_idle: Duration,
    /// The same for a connection that one side has closed.
    pub tcp_half_closed: Duration,
    /// Refuse connections that were made to the relay's own port instead of being redirected by a packet rule.
    pub only_redirected: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: usize::MAX,
            udp_idle: UDP_IDLE,
            tcp_idle: TCP_IDLE,
            tcp_half_closed: TCP_HALF_CLOSED,
            only_redirected: true,
        }
    }
}
