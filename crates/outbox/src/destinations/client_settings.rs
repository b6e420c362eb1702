//! A destination that is to be made ready.

use std::time::Duration;

use hooklatch_core::config::DestinationConfig;
use hooklatch_core::types::Name;

/// The settings that a client is made of.
pub(super) struct ClientSettings<'a> {
    /// Its name in the configuration.
    pub name: &'a Name,
    /// The values of its keys.
    pub config: &'a DestinationConfig,
    /// Longest that one call may take, from connecting to the last byte.
    pub timeout: Duration,
}
