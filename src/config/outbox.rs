//! `[outbox]`: how messages are leased and looked for.

/// `[outbox]`: how messages are leased and looked for.
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    /// Length of a lease: so long a worker may hold a message. Milliseconds, 1 s to 1 h.
    pub lease_ms: u64,
    /// Longest wait between two looks for due messages. Milliseconds.
    pub poll_ms: u64,
    /// Longest wait of a stop for calls under way. Milliseconds.
    pub stop_timeout_ms: u64,
}
