//! The whole configuration: one field for each section.

use std::collections::BTreeMap;

use super::admin::AdminConfig;
use super::database::DatabaseConfig;
use super::destinations::DestinationConfig;
use super::fetch::FetchConfig;
use super::log::LogConfig;
use super::outbox::OutboxConfig;
use super::problem::ConfigProblem;
use super::provider::ProviderConfig;
use super::retention::RetentionConfig;
use super::server::ServerConfig;
use crate::types::Name;

/// The whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`
    pub server: ServerConfig,
    /// `[admin]`
    pub admin: AdminConfig,
    /// `[database]`
    pub database: DatabaseConfig,
    /// `[retention]`
    pub retention: RetentionConfig,
    /// `[providers.NAME]`
    pub providers: BTreeMap<Name, ProviderConfig>,
    /// `[outbox]`
    pub outbox: OutboxConfig,
    /// `[destinations.NAME]`
    pub destinations: BTreeMap<Name, DestinationConfig>,
    /// `[fetch]`
    pub fetch: FetchConfig,
    /// `[log]`
    pub log: LogConfig,
    /// What is not wrong, and should not be so: files with secrets that everybody can read.
    pub warnings: Vec<ConfigProblem>,
}
