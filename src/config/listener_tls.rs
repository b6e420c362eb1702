//! `[server.tls]` and `[admin.tls]`: what a listener shows, and whom it asks who he is.

use std::path::PathBuf;

/// `[server.tls]` or `[admin.tls]`: the files of a listener that speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTlsConfig {
    /// Our certificate with its chain, PEM.
    pub cert_file: PathBuf,
    /// Its private key, PEM.
    pub key_file: PathBuf,
    /// Authorities whose certificates clients may show, PEM; clients are not asked for one when absent.
    pub client_ca_file: Option<PathBuf>,
    /// True when a client without such a certificate is not served.
    pub is_client_needed: bool,
}
