//! A destination that is to be made ready.

use std::time::Duration;

use crate::config::DestinationConfig;
use crate::types::Name;

/// The settings that a client is made of.
pub(super) struct ClientSettings<'a> {
    /// Its name in the configuration.
    pub(super) name: &'a Name,
    /// The values of its keys.
    pub(super) config: &'a DestinationConfig,
    /// Longest that one call may take, from connecting to the last byte.
    pub(super) timeout: Duration,
}
