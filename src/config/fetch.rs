//! `[fetch]`: how senders' own hosts are reached.

use super::secret::Secret;

/// `[fetch]`: how senders' own hosts are reached, where a kind's keys are fetched from them.
#[derive(Debug, Clone, Default)]
pub struct FetchConfig {
    /// The proxy to go through.
    pub proxy: Option<Secret>,
    /// Authorities to believe besides the system's, in PEM form.
    pub ca: Option<Secret>,
    /// Hosts and ranges that may be asked although they are private.
    pub private_hosts: Vec<String>,
}
