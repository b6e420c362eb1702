//! `[outbox]`: how messages are leased and looked for.

/// `[outbox]`
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    /// How long a worker may hold a message. Milliseconds.
    pub lease_ms: u64,
    /// Longest wait between two looks for due messages. Milliseconds.
    pub poll_ms: u64,
    /// How long a stop waits for calls under way. Milliseconds.
    pub stop_timeout_ms: u64,
}
