//! `[server]`: the receiver's listener and its bounds.

use std::net::SocketAddr;

use ipnet::IpNet;

use super::forwarded::ForwardedHeader;
use super::listener_tls::ListenerTlsConfig;

/// `[server]`: the receiver's listener and its bounds.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Name of the installation, for people; empty when it has none.
    pub name: String,
    /// True when it takes fake events: it says so to everybody who asks.
    pub is_test: bool,
    /// Address of the receiver's listener.
    pub listen: SocketAddr,
    /// URL that senders call, without a trailing slash; some of them sign it.
    pub public_url: String,
    /// Largest body. Bytes, 1 KiB to 64 MiB.
    pub body_bytes_max: u32,
    /// Longest time from connection (or last answer) to the last header byte. Milliseconds.
    pub header_timeout_ms: u64,
    /// Longest time from the headers to the last body byte. Milliseconds.
    pub body_timeout_ms: u64,
    /// Longest time from the last body byte to our answer; then 503. Milliseconds.
    pub answer_timeout_ms: u64,
    /// Time between the word to stop and its beginning, in which requests are taken as ever. Milliseconds.
    pub stop_delay_ms: u64,
    /// Most connections that are open at once.
    pub connections_n_max: u32,
    /// Most requests that wait for a commit; then 503.
    pub queue_n_max: u32,
    /// Most memory that requests take up at once, until their events are written; then 503. Bytes.
    pub inflight_bytes_max: u32,
    /// Most events in one request; one with more is kept as a single `unreadable` event.
    pub events_n_max: u32,
    /// Longest that the transactional handlers of one request may take together. Milliseconds.
    pub handler_timeout_ms: u64,
    /// Most bytes of `unreadable` events that are kept of one provider.
    pub unreadable_bytes_max: u32,
    /// Its certificate; plain HTTP when absent.
    pub tls: Option<ListenerTlsConfig>,
    /// Further bounds of a connection and of a peer.
    pub edge: EdgeConfig,
}

/// The part of `[server]` that bounds what one connection, and one peer, may take.
#[derive(Debug, Clone)]
pub struct EdgeConfig {
    /// Longest time from the first byte of an answer that waits for its peer to the last. Milliseconds.
    pub write_timeout_ms: u64,
    /// Slowest body after its first 2 s. Bytes a second; 0 for any.
    pub body_bytes_per_s_min: u32,
    /// Longest life of a connection. Milliseconds.
    pub connection_life_ms: u64,
    /// Most requests on a connection.
    pub connection_requests_n_max: u32,
    /// Most of `connections_n_max` for one peer. Percent.
    pub peer_share_percent: u32,
    /// Addresses and ranges that stand for many peers and have no share.
    pub proxies: Vec<IpNet>,
    /// Header in which these say whom a request came from.
    pub forwarded: ForwardedHeader,
}

impl ServerConfig {
    /// Most of these open connections for one peer, one at least.
    pub fn peer_connections_n_max(&self, connections_n_max: usize) -> usize {
        (connections_n_max * self.edge.peer_share_percent as usize / 100).max(1)
    }
}
