//! The configuration as data: what an operator may write, checked, and the reader that checks it key by key.
//!
//! Everything in a [`Config`] is resolved: secrets are read, names are parsed, bounds hold. The keys, their units and
//! their defaults are documented once, in `config.default.toml`. Nothing here knows a provider kind or reads a file of
//! settings: that is `load`. In reading order:
//!
//! 1. The types, a file for each section: `whole`, `server`, `admin`, `database`, `encryption`, `retention`, `provider` with
//!    `kind_settings`, `outbox`, `destinations` with `target`, `status` and `http`, `fetch`, `tracing`, `log`, `kinds`; and what
//!    several have: `secret`, `retry`, `listener_tls`, `forwarded`.
//! 2. The reader: `problem` (what is told), `field` (a key at a time), `value`, `ratio` and `secret_source` (values that several
//!    sections have), `origin` and `environment` (where a value stands), `read_values` (what was
//!    read, and may be shown) and `effective` (what is shown of it).
//!
//! `[destinations.NAME]` is read by the kinds of destinations themselves, in `outbox/destinations`.

mod admin;
mod database;
mod destinations;
mod effective;
mod encryption;
mod environment;
mod fetch;
mod field;
mod forwarded;
mod http;
mod kind_settings;
mod kinds;
mod listener_tls;
mod log;
mod origin;
mod outbox;
mod problem;
mod provider;
mod ratio;
mod read_values;
mod retention;
mod retry;
mod secret;
mod secret_source;
mod server;
mod status;
mod target;
mod tracing;
mod value;
mod whole;

pub(crate) use admin::OperatorUrl;
pub use admin::{AdminConfig, AdminToken, DEV_TOKEN};
pub use database::{DatabaseConfig, PoolingConfig};
pub use destinations::{DestinationConfig, QueryConfig, UnknownPolicy};
pub use effective::{ConfigLayer, EffectiveSetting};
pub use encryption::{EncryptionConfig, EncryptionKey};
pub use environment::Environment;
pub use fetch::FetchConfig;
pub(crate) use field::{Checker, DEFAULTS_ORIGIN, Field, Table};
pub use forwarded::ForwardedHeader;
pub use http::{
    AuthConfig, BodyConfig, CaptureConfig, HmacAlgorithm, HmacConfig, HmacEncoding, HttpConfig, HttpVersion,
    SuccessConfig, TlsConfig,
};
pub use kind_settings::{KindSetting, KindSettings};
pub use kinds::KindsFolder;
pub use listener_tls::ListenerTlsConfig;
pub use log::{LogConfig, LogFormat};
pub(crate) use origin::{ENV_PREFIX, origin_of};
pub use outbox::OutboxConfig;
pub use problem::ConfigProblem;

pub use provider::{AgeConfig, OnHandlerError, ProviderConfig, RouteConfig};
pub(crate) use read_values::{ReadValue, ReadValues, mark_of, quoted};
pub(crate) use retention::{ACTIVITY_DAYS, ENDLESS_DAYS};
pub use retention::{IdsKept, RetentionConfig};
pub use retry::RetryConfig;
pub(crate) use retry::retry;
pub use secret::Secret;
pub(crate) use secret_source::open_to_all;
pub use server::{EdgeConfig, ServerConfig};
pub use status::StatusMeaning;
pub use target::{Format, Target};
pub use tracing::{InboundTraces, TracingConfig};
pub(crate) use value::{UrlRule, entry_name, http_url, private_hosts, proxy};
pub use whole::Config;
