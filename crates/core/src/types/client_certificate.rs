//! Who a client is that showed a certificate.

/// A client certificate that was verified in the handshake of its connection. Requests carry it as an extension, in an
/// `Arc`; it does not say whether its holder may do anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its subject, such as `CN=ledger, O=Example`.
    pub subject: String,
    /// Its subject alternative names, each behind its sort: `dns:`, `uri:` or `email:`.
    pub names: Vec<String>,
    /// SHA-256 of the whole certificate.
    pub fingerprint: [u8; 32],
}
