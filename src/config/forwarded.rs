//! Where a trusted proxy writes the address of who sent a request.

/// `forwarded`: the header in which trusted proxies name the address that a request came from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ForwardedHeader {
    /// In none: the address is that of the connection.
    #[default]
    Off,
    /// In `Forwarded` (RFC 7239).
    Forwarded,
    /// In the older `X-Forwarded-For`, which most proxies write.
    XForwardedFor,
}
