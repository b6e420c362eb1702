//! The reasons why a destination cannot be used as configured.

use hooklatch_core::types::Name;

/// The reason why a destination cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum DestinationError {
    /// The address is not one that messages can be sent to.
    #[error("destination `{name}`: url cannot be used: {why}")]
    Url {
        /// Name of the destination.
        name: Name,
        /// The mistake, without the address.
        why: String,
    },
    /// A configured header is not a header.
    #[error(
        "destination `{name}`: `{header}` is not a header name, or its value has characters a header cannot carry"
    )]
    Header {
        /// Name of the destination.
        name: Name,
        /// Name of the header.
        header: String,
    },
    /// A template cannot be read.
    #[error("destination `{name}`: {key} is not a template: {why}")]
    Template {
        /// Name of the destination.
        name: Name,
        /// The key that holds it, such as `query.url`.
        key: &'static str,
        /// The mistake in it.
        why: String,
    },
    /// The client could not be made; as a rule, no certificate authorities were found.
    #[error("could not make an HTTP client{}: {why}", name.as_ref().map(|name| format!(" for destination `{name}`")).unwrap_or_default())]
    Client {
        /// Name of the destination, if it is for one.
        name: Option<Name>,
        /// The words of the library.
        why: String,
    },
}
