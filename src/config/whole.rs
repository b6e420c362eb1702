//! The whole configuration: one field for each section.

use std::collections::BTreeMap;

use super::admin::AdminConfig;
use super::database::DatabaseConfig;
use super::destinations::DestinationConfig;
use super::effective::EffectiveSetting;
use super::encryption::EncryptionConfig;
use super::fetch::FetchConfig;
use super::log::LogConfig;
use super::outbox::OutboxConfig;
use super::problem::ConfigProblem;
use super::provider::ProviderConfig;
use super::retention::RetentionConfig;
use super::server::ServerConfig;
use super::tracing::TracingConfig;
use crate::types::Name;

/// The whole configuration, checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[server]`: the receiver of requests.
    pub server: ServerConfig,
    /// `[admin]`: the operators' listener.
    pub admin: AdminConfig,
    /// `[database]`: where everything is kept.
    pub database: DatabaseConfig,
    /// `[encryption]`: the keys that it is sealed with.
    pub encryption: EncryptionConfig,
    /// `[retention]`: how long it is kept.
    pub retention: RetentionConfig,
    /// `[providers.NAME]`: the senders, by name.
    pub providers: BTreeMap<Name, ProviderConfig>,
    /// `[outbox]`: how messages are sent.
    pub outbox: OutboxConfig,
    /// `[destinations.NAME]`: where they go, by name.
    pub destinations: BTreeMap<Name, DestinationConfig>,
    /// `[fetch]`: how senders' hosts are asked.
    pub fetch: FetchConfig,
    /// `[tracing]`: the spans that are sent.
    pub tracing: TracingConfig,
    /// `[log]`: the lines that are written.
    pub log: LogConfig,
    /// Every value that is in force, for people.
    pub settings: Vec<EffectiveSetting>,
    /// Warnings about files with secrets that everybody on the machine can read.
    pub warnings: Vec<ConfigProblem>,
}
