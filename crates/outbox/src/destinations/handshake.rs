//! A look at a destination's TLS without a request: the result of the handshake.

/// The result of connecting to a destination without sending anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeEnd {
    /// Both sides believe each other, as far as can be seen without a request.
    Well {
        /// End of its certificate's validity, unless it cannot be read. Unix seconds.
        not_after_s: Option<i64>,
    },
    /// Its name is not found, its address may not be called, or nothing listens there.
    Unreached(String),
    /// It was not done in this time. Milliseconds.
    Silent(u64),
    /// We do not believe its certificate.
    NotBelieved(String),
    /// It does not believe ours, or will not have a connection without one.
    NotTaken(String),
    /// What it speaks is not TLS of our versions.
    NoTls(String),
}

/// A handshake, and the destinations that it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handshake {
    /// Names of the destinations that are called there with the same TLS.
    pub destinations: Vec<String>,
    /// Host, with the port where one is written.
    pub host: String,
    pub end: HandshakeEnd,
}

/// What was looked at, and what was not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Handshakes {
    pub done: Vec<Handshake>,
    /// Destinations that are called through a proxy, or at a host that each message names.
    pub elsewhere_n: usize,
    /// Destinations beyond the most that are looked at.
    pub left_n: usize,
}
