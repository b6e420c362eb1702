//! What the operator wrote, checked: defaults, file and environment become one [`Config`].
//!
//! Everything here is resolved: secrets are read, names are parsed, bounds hold. The keys, their units and
//! their defaults are documented once, in `config.default.toml`. No other module reads the environment.

mod age;
mod database;
mod destination;
mod dev;
mod edge;
mod field;
mod http;
mod kind_settings;
mod layers;
mod load;
mod problem;
mod provider;
mod retention;
mod secret;
mod section;
mod target;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

pub use age::AgeConfig;
pub use database::{DatabaseConfig, PoolingConfig};
pub use edge::EdgeConfig;
pub use http::{
    AuthConfig, BodyConfig, CaptureConfig, HmacAlgorithm, HmacConfig, HmacEncoding, HttpConfig, HttpVersion,
    SuccessConfig, TlsConfig,
};
pub use kind_settings::{KindSetting, KindSettings};
pub use load::{
    DEFAULTS, DevKind, Environment, Judge, KindFacts, KindsFolder, ResendFacts, SecretsNeed, SettingFacts,
    SettingShape, Settings, kinds_folder, load, load_judged,
};
pub use problem::ConfigProblem;
pub(crate) use problem::nearest;
pub use retention::{IdsKept, RetentionConfig};
pub use target::{Format, Target};

use crate::types::{Name, OnConflict};
use subtle::ConstantTimeEq;

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

/// `[server]`: the receiver.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where providers reach us.
    pub listen: SocketAddr,
    /// What providers call; part of what some of them sign. No trailing slash.
    pub public_url: String,
    /// Largest body. Bytes, 1 KiB to 64 MiB.
    pub body_bytes_max: u32,
    /// From connection (or last answer) to the last header byte. Milliseconds.
    pub header_timeout_ms: u64,
    /// From the headers to the last body byte. Milliseconds.
    pub body_timeout_ms: u64,
    /// From the last body byte to our answer; then 503. Milliseconds.
    pub answer_timeout_ms: u64,
    /// Most open connections.
    pub connections_n_max: u32,
    /// Most requests that wait for a commit; then 503.
    pub queue_n_max: u32,
    /// Most memory that requests take up at once, until their events are written; then 503. Bytes.
    pub inflight_bytes_max: u32,
    /// Most events in one request; one with more is kept as a single `unreadable` event.
    pub events_n_max: u32,
    /// Longest that the transactional handlers of one request may take together. Milliseconds.
    pub handler_timeout_ms: u64,
    /// Most bytes of `unreadable` events that are kept of one provider.
    pub unreadable_bytes_max: u32,
    /// What bounds a connection besides these.
    pub edge: EdgeConfig,
}

/// `[admin]`: the operator's listener.
#[derive(Debug, Clone)]
pub struct AdminConfig {
    /// Where operators reach us.
    pub listen: SocketAddr,
    /// Who may use the operators' API.
    pub tokens: Vec<AdminToken>,
    /// Names that operators call us by, besides loopback and `listen`. Lower case.
    pub hosts: Vec<String>,
}

/// The operators' token of `serve --dev`; published, like its other secrets.
pub const DEV_TOKEN: &str = "hooklatch-dev-token";

/// One of `admin.tokens`.
#[derive(Debug, Clone)]
pub struct AdminToken {
    /// Who it is, in the audit log; unique.
    pub name: Name,
    /// What it may do.
    pub role: AdminRole,
    /// What it presents; 16 to 1024 visible ASCII characters.
    pub token: Secret,
}

/// What the holder of an [`AdminToken`] may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminRole {
    /// Look.
    Viewer,
    /// Look and act.
    Operator,
}

/// `[providers.NAME]`
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The provider kind; the name unless set.
    pub kind: Name,
    /// Newest first; all are tried.
    pub secrets: Vec<Secret>,
    /// What else the kind's scheme needs.
    pub settings: KindSettings,
    /// Whether requests that nothing signs are taken.
    pub is_unverified_accepted: bool,
    /// What a failing plain handler means.
    pub on_handler_error: OnHandlerError,
    /// How old a signed time may be.
    pub age: AgeConfig,
    /// What becomes of another content under an event's key; as its kind says when absent.
    pub on_conflict: Option<OnConflict>,
    /// The only types that are believed where the type stands in an unsigned header: patterns, checked by
    /// `TypePattern::parse`. Empty for any.
    pub types: Vec<String>,
    /// Whether the sender is ours and can act on 409 for `conflict`.
    pub is_first_party: bool,
    /// Type patterns to destinations.
    pub routes: Vec<RouteConfig>,
    /// How failing handlers are tried again.
    pub retry: RetryConfig,
}

/// `[[providers.NAME.routes]]`
#[derive(Debug, Clone)]
pub struct RouteConfig {
    /// Type patterns, checked by `TypePattern::parse`.
    pub on: Vec<String>,
    /// A configured destination.
    pub to: Name,
    /// Only the newest version of an object.
    pub latest: bool,
    /// Where in the payload the lane's name is: a JSON pointer.
    pub lane: Option<String>,
}

/// What a failing plain handler means for its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnHandlerError {
    /// Kept as `retry`; the sender gets 200.
    Keep,
    /// Nothing is kept; the sender gets 500 and sends it again.
    Reject,
}

/// `retry = { first_ms, max_ms, attempts_n, age_max_ms }`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryConfig {
    /// Upper bound of the first delay. Milliseconds.
    pub first_ms: u64,
    /// Upper bound of any delay. Milliseconds.
    pub max_ms: u64,
    /// Most attempts.
    pub attempts_n: u32,
    /// Oldest age at which another attempt is made, from the first. Milliseconds.
    pub age_max_ms: u64,
}

/// `[outbox]`
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    /// How long a worker may hold a message. Milliseconds.
    pub lease_ms: u64,
    /// Longest wait between two looks for due messages. Milliseconds.
    pub poll_ms: u64,
    /// How long a stop waits for calls under way. Milliseconds.
    pub stop_timeout_ms: u64,
}

/// `[destinations.NAME]`
#[derive(Debug, Clone)]
pub struct DestinationConfig {
    /// Where calls go: an address, or a template of one. With `serve --dev`, the built-in echo. Empty for what is
    /// not HTTP.
    pub url: String,
    /// What kind of destination it is.
    pub target: Target,
    /// In which form messages reach it.
    pub format: Format,
    /// Extra headers, such as `Authorization`; values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// What an unknown outcome means.
    pub unknown: UnknownPolicy,
    /// Connect to last byte. Milliseconds; below the lease unless `heartbeat`.
    pub timeout_ms: u64,
    /// Most calls under way at once.
    pub concurrency_n: u32,
    /// Whether the destination's answers decide how many of those there are.
    pub adaptive: bool,
    /// How failures are tried again.
    pub retry: RetryConfig,
    /// Longest `Retry-After` that is honoured. Milliseconds.
    pub retry_after_max_ms: u64,
    /// How long the destination remembers a key. Milliseconds.
    pub key_valid_for_ms: u64,
    /// Most calls a second, on each node; 0 for no limit.
    pub rate_per_s: u32,
    /// Failures in a row after which nothing is sent for a while; 0 for never.
    pub breaker_failures_n: u32,
    /// How long that while is; then one call probes. Milliseconds.
    pub breaker_open_ms: u64,
    /// Statuses that mean something else here than they usually do.
    pub statuses: BTreeMap<u16, StatusMeaning>,
    /// Signs each call by Standard Webhooks (v1), so that the destination can believe it.
    pub sign_secret: Option<Secret>,
    /// Whether a call may take longer than the lease, which is then prolonged while it is under way.
    pub heartbeat: bool,
    /// What only calls over HTTP have.
    pub http: HttpConfig,
}

/// What a status says about the effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMeaning {
    /// It happened.
    Done,
    /// Not now; again later.
    Retry,
    /// Refused for good.
    Dead,
    /// Nobody knows whether it happened: `unknown` decides.
    Unknown,
}

/// What to do when a call was sent and nobody knows whether it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownPolicy {
    /// Send again under the same key: the destination honours it.
    Retry,
    /// Ask first, and send again only when the effect did not happen.
    Query(QueryConfig),
    /// A person decides.
    Hold,
}

/// `query = { url, pointer, equals, pending, after_ms }` beside `unknown = "query"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// GET this; `{idempotency_key}`, `{event_id}` and `{message_id}` are filled in, percent-encoded.
    pub url: String,
    /// JSON pointer into the answer; 404 or a missing value means "did not happen".
    pub pointer: String,
    /// The value that means "happened"; any that is not pending when absent. Another value settles nothing.
    pub equals: Option<String>,
    /// Values that mean "still under way: ask again".
    pub pending: Vec<String>,
    /// How long after an attempt's end its call may still be running over there. No question is asked before.
    /// Milliseconds.
    pub after_ms: u64,
}

/// `[fetch]`: how senders' own hosts are reached, where a kind's keys are fetched from them.
#[derive(Debug, Clone, Default)]
pub struct FetchConfig {
    /// The proxy to go through.
    pub proxy: Option<Secret>,
    /// Authorities to believe besides the system's, in PEM form.
    pub ca: Option<Secret>,
    /// Hosts and ranges that may be asked although they are private.
    pub private_hosts: Vec<String>,
}

/// `[log]`
#[derive(Debug, Clone)]
pub struct LogConfig {
    /// A `tracing` filter such as `info` or `hooklatch=debug`.
    pub filter: String,
    /// `auto` (human in a terminal, JSON otherwise), `human` or `json`.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Human in a terminal, JSON otherwise.
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// A secret text. It prints as `[secret]`, and is compared by [`Secret::is`] alone:
///
/// ```compile_fail,E0369
/// # use hooklatch::config::Secret;
/// let is_same = Secret::new("a") == Secret::new("a");
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether it is `given`, told in a time that says nothing about where the two differ.
    pub fn is(&self, given: impl AsRef<[u8]>) -> bool {
        self.0.as_bytes().ct_eq(given.as_ref()).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// Where a config comes from, for messages and for paths relative to it.
#[derive(Debug, Clone, Default)]
pub struct ConfigSource {
    /// The file, if there was one.
    pub file: Option<PathBuf>,
}
