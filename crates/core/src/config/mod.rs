//! The configuration as data: what an operator may write, checked, and the reader that checks it key by key.
//!
//! Everything in a [`Config`] is resolved: secrets are read, names are parsed, bounds hold. The keys, their units and
//! their defaults are documented once, in `config.default.toml`. Nothing here knows a provider kind or reads a file of
//! settings: that is `load`. In reading order:
//!
//! 1. The sections: `sections`, `provider` and `destinations`. A section is a table of its keys, made by `section!`;
//!    `[providers.NAME]` is read by `load` and `[destinations.NAME]` by `outbox/destinations`, which know the kinds.
//! 2. The reader: `reader` (a key at a time), `value` and `secret` (what keys want), `report` (problems, and what was
//!    read and may be shown).

mod destinations;
mod provider;
mod reader;
mod report;
mod secret;
mod sections;
mod value;

use std::collections::BTreeMap;

use crate::types::Name;
pub use destinations::{
    AuthConfig, BodyConfig, CaptureConfig, DestinationConfig, Format, HmacAlgorithm, HmacConfig,
    HmacEncoding, HttpConfig, HttpVersion, QueryConfig, StatusMeaning, SuccessConfig, Target, TlsConfig,
    UnknownPolicy,
};
pub use provider::{
    AgeConfig, KindSetting, KindSettings, OnHandlerError, ProviderConfig, RetryConfig, RouteConfig,
};
pub use reader::{Checker, DEFAULTS_ORIGIN, ENV_PREFIX, Field, Found, Table, origin_of, toml_value};
pub use report::{
    ConfigProblem, EffectiveSetting, Environment, ReadValue, ReadValues, SettingLayer, mark_of,
};
pub use secret::{SECRET_FORMS, Secret, is_secret_place, open_to_all};
pub use sections::{
    ACTIVITY_DAYS, AdminConfig, AdminToken, BODY_BYTES, DATABASE_URL_FORMS, DAYS_MAX, DEV_TOKEN,
    DatabaseConfig, ENDLESS_DAYS, EdgeConfig, EncryptionConfig, EncryptionKey, FetchConfig, ForwardedHeader,
    IdleConfig, IdsKept, InboundTraces, KindsFolder, ListenerTlsConfig, LogConfig, LogFormat, OutboxConfig,
    PoolingConfig, RetentionConfig, ServerConfig, TracingConfig,
};
pub use value::{Keyword, UrlRule, entry_name, http_url, private_hosts, proxy};

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
    /// Warnings about files with secrets that every user of the machine can read.
    pub warnings: Vec<ConfigProblem>,
}
