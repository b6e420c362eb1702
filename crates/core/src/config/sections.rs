//! The sections about the program itself, each key once: `[server]`, `[admin]`, `[database]`, `[encryption]`,
//! `[retention]`, `[outbox]`, `[fetch]`, `[tracing]`, `[log]` and `[kinds]`.
//!
//! The defaults are those of `config.default.toml`, so a key is always there unless it is wrong; then a problem is
//! recorded, and the value here is of no matter.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ::config::ValueKind;
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use reqwest::Url;

use super::reader::{DEFAULTS_ORIGIN, Field, FromField, Table};
use super::report::ConfigProblem;
use super::secret::Secret;
use super::value::{
    UrlRule, beside, by_loader, hosts, http_url, keywords, number, number_if_set, number_or, of_key,
    private_hosts, proxy, section,
};
use crate::mistakes::{nearest, shown};
use crate::seal::{KeyRing, SealKey};
use crate::types::{Name, Principal, Reach, Role};

/// Values of `body_bytes_max`. Bytes.
pub const BODY_BYTES: RangeInclusive<u64> = 1_024..=67_108_864;
/// Days that "without end" counts as: a recorded request of a kind whose signature covers no time, and an event that
/// its sender sends again at any time. Days.
pub const ENDLESS_DAYS: u32 = 400;

/// Time for which the counts of requests and attempts are kept. Days.
pub const ACTIVITY_DAYS: u32 = 400;
/// Longest that ids can be kept. Days.
pub const DAYS_MAX: u32 = 3_650;
/// Values of a window of `[retention]`. Days.
const DAYS: RangeInclusive<u64> = 1..=DAYS_MAX as u64;
/// Most keys of the ring: more than an operator rotates within the time that bodies are kept.
const KEYS_N_MAX: usize = 16;
/// Longest name of the service in traces. Bytes.
const SERVICE_NAME_BYTES_MAX: usize = 255;
/// The operators' token of `serve --dev`; published, like its other secrets.
pub const DEV_TOKEN: &str = "hooklatch-dev-token";

section! {
    /// `[server]`: the receiver's listener and its bounds.
    #[derive(Debug, Clone)]
    pub struct ServerConfig {
        /// Name of the installation, for people; empty when it has none.
        pub name: String,
        /// Address of the receiver's listener.
        pub listen: SocketAddr = listen("write it as 127.0.0.1:8080 or [::1]:8080"),
        /// URL that senders call, without a trailing slash; some of them sign it.
        pub public_url: String = public_url,
        /// Its certificate; plain HTTP when absent.
        pub tls: Option<ListenerTlsConfig>,
        /// Largest body. Bytes, 1 KiB to 64 MiB.
        pub body_bytes_max: u32 = number(BODY_BYTES),
        /// Longest time from the last body byte to our answer; then 503. Milliseconds.
        pub answer_timeout_ms: u64 = number(100..=60_000),
        /// Longest that the transactional handlers of one request may take together. Milliseconds.
        pub handler_timeout_ms: u64 = number(10..=30_000),
        /// True when it takes fake events: it says so to every caller.
        pub is_test: bool = of_key("test"),
        /// Longest time from connection (or last answer) to the last header byte. Milliseconds.
        pub header_timeout_ms: u64 = number(100..=300_000),
        /// Longest time from the headers to the last body byte. Milliseconds.
        pub body_timeout_ms: u64 = number(100..=300_000),
        /// Time between the word to stop and its beginning, in which requests are taken as ever. Milliseconds.
        pub stop_delay_ms: u64 = number(0..=300_000),
        /// Most connections that are open at once.
        pub connections_n_max: u32 = number(1..=100_000),
        /// Most requests that wait for a commit; then 503.
        pub queue_n_max: u32 = number(1..=100_000),
        /// Most memory that requests take up at once, until their events are written; then 503. Bytes.
        pub inflight_bytes_max: u32 = number(u64::from(body_bytes_max)..=u64::from(u32::MAX)),
        /// Most events in one request; one with more is kept as a single `unreadable` event.
        pub events_n_max: u32 = number(1..=100_000),
        /// Most bytes of `unreadable` events that are kept of one provider.
        pub unreadable_bytes_max: u32 = number(0..=u64::from(u32::MAX)),
        /// Further bounds of a connection and of a peer.
        pub edge: EdgeConfig = beside(EdgeConfig::read),
    }
}

section! {
    /// The part of `[server]` that bounds what one connection, and one peer, may take.
    #[derive(Debug, Clone)]
    pub struct EdgeConfig {
        /// Longest time from the first byte of an answer that waits for its peer to the last. Milliseconds.
        pub write_timeout_ms: u64 = number(100..=300_000),
        /// Longest life of a connection. Milliseconds.
        pub connection_life_ms: u64 = number(1_000..=86_400_000),
        /// Slowest body after its first 2 s. Bytes a second; 0 for any.
        pub body_bytes_per_s_min: u32 = number(0..=1_048_576),
        /// Most requests on a connection.
        pub connection_requests_n_max: u32 = number(1..=1_000_000),
        /// Most of `connections_n_max` for one peer. Percent.
        pub peer_share_percent: u32 = number(1..=100),
        /// Addresses and ranges that stand for many peers and have no share.
        pub proxies: Vec<IpNet>,
        /// Header in which these say the address of the client.
        pub forwarded: ForwardedHeader,
    }
}

impl ServerConfig {
    /// Most of these open connections for one peer, one at least.
    pub fn peer_connections_n_max(&self, connections_n_max: usize) -> usize {
        (connections_n_max * self.edge.peer_share_percent as usize / 100).max(1)
    }
}

/// Reads an address with a port; any port of loopback after a problem.
fn listen(remedy: &'static str) -> impl FnOnce(&mut Table<'_>, &'static str) -> SocketAddr {
    move |table, key| {
        let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let Some(field) = table.take(key) else { return nowhere };
        let address = field
            .parsed(|text| text.parse::<SocketAddr>().map_err(|_| ("is not an address with a port", remedy)));
        // Anyone may know the secrets of `--dev`.
        if field.checker.is_dev && address.is_some_and(|address| !address.ip().is_loopback()) {
            let why = "can be reached from other machines, and the dev secrets are public";
            field.problem_shown(why, "use 127.0.0.1 or [::1] with --dev, or serve without --dev");
        }
        address.unwrap_or(nowhere)
    }
}

/// The URL that senders call; empty when none is written.
fn public_url(table: &mut Table<'_>, key: &'static str) -> String {
    let written = table.filled_text(key);
    written.and_then(|(field, text)| http_url(&field, &text, UrlRule::Public)).unwrap_or_default()
}

keywords! {
    /// `forwarded`: the header in which trusted proxies name the address of the client.
    pub enum ForwardedHeader {
        /// In none: the address is that of the connection.
        Off = "off",
        /// In `Forwarded` (RFC 7239).
        Forwarded = "forwarded",
        /// In the older `X-Forwarded-For`, which most proxies write.
        XForwardedFor = "x-forwarded-for",
    }
}

/// `[server.tls]` or `[admin.tls]`: the files of a listener that speaks TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerTlsConfig {
    /// Our certificate with its chain, PEM.
    pub cert_file: PathBuf,
    /// Its private key, PEM.
    pub key_file: PathBuf,
    /// Authorities whose certificates clients may show, PEM; clients are not asked for one when absent.
    pub client_ca_file: Option<PathBuf>,
    /// True when a client without such a certificate is not served.
    pub is_client_needed: bool,
}

impl FromField for ListenerTlsConfig {
    fn read(field: &Field<'_>) -> Option<Self> {
        let problems_before = field.checker.problems_n();
        let config = field.section(|table| {
            let remedy = "name a file in PEM form";
            let cert_file = table.get_needed("cert_file", remedy);
            let key_file = table.get_needed("key_file", remedy);
            let has_client_ca = table.peek("client_ca_file").is_some();
            let client_ca_file = table.get("client_ca_file");
            let needed = table.take("client_needed");
            let is_client_needed = needed.as_ref().and_then(bool::read).unwrap_or_default();
            let (cert_file, key_file) = (cert_file?, key_file?);
            if let Some(needed) = needed.filter(|_| is_client_needed && !has_client_ca) {
                needed.problem("is true, and no authority is named", "name one in client_ca_file");
            }
            Some(Self { cert_file, key_file, client_ca_file, is_client_needed })
        });
        let config = config.flatten().filter(|_| field.checker.problems_n() == problems_before)?;
        // A reader of the key can pose as us.
        field.checker.found().secret_files.insert(config.key_file.clone());
        Some(config)
    }
}

section! {
    /// `[admin]`: the operator's listener.
    #[derive(Debug, Clone)]
    pub struct AdminConfig {
        /// Address of the operators' listener.
        pub listen: SocketAddr = listen("write it as 127.0.0.1:8081"),
        /// Tokens of those who may use the operators' API.
        pub tokens: Vec<AdminToken> = tokens,
        /// Names that operators call us by, besides loopback and `listen`. Lower case.
        pub hosts: Vec<String> = hosts,
        /// Address at which people reach it through a proxy.
        pub public_url: Option<OperatorUrl> = operator_url,
        /// Its certificate; plain HTTP when absent.
        pub tls: Option<ListenerTlsConfig>,
        /// Addresses and ranges of proxies that are believed about the address of the client.
        pub proxies: Vec<IpNet>,
        /// Header in which these say it.
        pub forwarded: ForwardedHeader,
        /// Persons that have to agree to an operation, the orderer included.
        pub approvals_n: u32 = number_or(1..=2, 1),
        /// Time for which an operation waits for the second of them. Hours.
        pub approval_h: u32 = number_or(1..=168, 24),
    }
}

/// The address at which people reach the operator side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorUrl {
    /// The name or address in it. Lower case.
    pub host: String,
    /// What browsers call pages there: scheme, host, and a port that is not the usual one.
    pub origin: String,
    /// The path in it, without a slash at its end; empty for none.
    pub base: String,
    /// True when it is `https`.
    pub is_secure: bool,
}

impl AdminConfig {
    /// Path under which people reach it through a proxy, without a slash at its end; empty for none.
    pub fn base(&self) -> String {
        self.public_url.as_ref().map(|url| url.base.clone()).unwrap_or_default()
    }
}

/// Beginnings of our own paths: a proxy's path that begins so cannot be distinguished from them where the proxy has
/// removed its own.
const OWN_PATHS: &str = "assets audit destinations dev events explain lanes livez messages metrics openapi.json operations \
                         overview readyz rejected search senders settings sign-in sign-out v1 webhooks what-if";

fn operator_url(table: &mut Table<'_>, key: &'static str) -> Option<OperatorUrl> {
    let (field, text) = table.filled_text(key)?;
    let url = Url::parse(&http_url(&field, &text, UrlRule::Public)?).ok()?;
    let base = url.path().trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let first = base.trim_start_matches('/').split('/').next().unwrap_or_default();
    if !base.bytes().all(is_plain) || base.contains("//") {
        let why = "has other characters in its path than letters, digits and -._~";
        field.problem_shown(why, "choose a simpler path at the proxy");
        return None;
    }
    if OWN_PATHS.split(' ').any(|own| own == first) {
        let why = "has a path that begins like one of our own";
        field.problem_shown(why, "choose another one at the proxy, such as /hooklatch");
        return None;
    }
    Some(OperatorUrl {
        host: url.host_str()?.trim_end_matches('.').to_ascii_lowercase(),
        origin: url.origin().ascii_serialization(),
        base: base.to_owned(),
        is_secure: url.scheme() == "https",
    })
}

/// One of `admin.tokens`: a person or program, and what it may do.
#[derive(Debug, Clone)]
pub struct AdminToken {
    /// Name of its holder in the audit log; unique.
    pub name: Name,
    /// Role of its holder.
    pub role: Role,
    /// The token itself: 16 to 1024 visible ASCII characters.
    pub token: Secret,
    /// Providers that its holder may see and decide about.
    pub providers: Reach,
    /// Destinations that its holder may see and decide about.
    pub destinations: Reach,
}

impl AdminToken {
    /// Its holder, with role and scope.
    pub fn principal(&self) -> Principal {
        Principal {
            name: self.name.clone(),
            role: self.role,
            providers: self.providers.clone(),
            destinations: self.destinations.clone(),
        }
    }
}

fn tokens(table: &mut Table<'_>, key: &'static str) -> Vec<AdminToken> {
    let mut tokens: Vec<AdminToken> = Vec::new();
    for field in table.list(key) {
        let Some(token) = field.section(admin_token).flatten() else { continue };
        let place = field.at(format!("{}.name", field.key));
        if tokens.iter().any(|other| other.name == token.name) {
            place.problem(format!("`{}` is the name of two tokens", token.name), "rename one of them");
        }
        if tokens.iter().any(|other| other.token.is(token.token.reveal())) {
            place.problem("has the token of another entry", "make a token for each");
        }
        tokens.push(token);
    }
    tokens
}

fn admin_token(table: &mut Table<'_>) -> Option<AdminToken> {
    const SHAPE: &str = "a token is { name = …, role = …, token = … }";
    let name = table.needed("name", SHAPE).and_then(|field| field.name("choose another name"));
    let role = table.needed("role", SHAPE);
    let role = role.and_then(|field| field.word(&Role::ALL.map(|role| (role.as_str(), role))));
    let token = table.needed("token", SHAPE).and_then(|field| {
        let secret = field.secret()?;
        let is_fit = (16..=1_024).contains(&secret.reveal().len())
            && secret.reveal().bytes().all(|byte| byte.is_ascii_graphic());
        if !is_fit {
            let remedy = "make one with `openssl rand -hex 32`";
            field.problem("is not 16 to 1024 visible ASCII characters", remedy);
        }
        is_fit.then_some(secret)
    });
    let [providers, destinations] = ["providers", "destinations"].map(|key| reach(table, key));
    Some(AdminToken { name: name?, role: role?, token: token?, providers, destinations })
}

/// The names that a token reaches; everything when there is no list.
fn reach(table: &mut Table<'_>, key: &'static str) -> Reach {
    let Some(field) = table.take(key) else { return Reach::All };
    let remedy = format!("write a name of [{key}]");
    Reach::These(field.list().unwrap_or_default().iter().filter_map(|one| one.name(&remedy)).collect())
}

section! {
    /// `[database]`. Its `Debug` leaves out the URL, which may hold a password.
    #[derive(Clone)]
    pub struct DatabaseConfig {
        /// URL of the database: `sqlite://PATH` or `postgres://…`.
        pub url: String = database_url,
        /// File or variable that `create` was written in.
        pub create_source: String = source_of("create"),
        /// False when a database that is missing or empty is an error, and only `hooklatch migrate` creates one.
        pub create: bool = flag_or(true),
        /// True when `serve` brings the schema up to date.
        pub migrate: bool,
        /// Most connections (PostgreSQL; SQLite has one writer and this many readers).
        pub connections_n: u32 = number(6..=1_000),
        /// Longest wait of a start for a PostgreSQL that takes writes. Milliseconds.
        pub connect_wait_ms: u64 = number(0..=3_600_000),
        /// The pooler between us and PostgreSQL, if there is one.
        pub pooling: PoolingConfig,
        /// True when a PostgreSQL that waits for no standby is refused.
        pub replicated: bool,
        /// How often a node without work asks the database.
        pub idle: IdleConfig,
    }
}

keywords! {
    /// `database.idle`: how often a node without work asks the database.
    pub enum IdleConfig {
        /// About once a second.
        Poll = "poll",
        /// About twice a minute.
        Sleep = "sleep",
    }
}

keywords! {
    /// `database.pooling`: the pooler between us and PostgreSQL.
    pub enum PoolingConfig {
        /// No pooler, or one in session mode.
        Session = "session",
        /// A pooler that gives every transaction another session.
        Transaction = "transaction",
    }
}

/// The ways to write the URL of a database, as a remedy.
pub const DATABASE_URL_FORMS: &str =
    "write sqlite://PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE, or several HOST:PORT between commas";

fn database_url(table: &mut Table<'_>, key: &'static str) -> String {
    let url = table.take(key).and_then(|field| {
        if matches!(&field.value.kind, ValueKind::String(text) if text.trim().is_empty()) {
            field.problem("is empty", DATABASE_URL_FORMS);
            return None;
        }
        let secret = field.secret()?;
        field.checker.found().read.database_url(&field.key, secret.reveal());
        Some(secret.reveal().to_owned())
    });
    url.unwrap_or_default()
}

fn source_of(key: &'static str) -> impl FnOnce(&mut Table<'_>, &'static str) -> String {
    move |table, _| table.peek(key).map(|field| field.source).unwrap_or_default()
}

fn flag_or(default: bool) -> impl FnOnce(&mut Table<'_>, &'static str) -> bool {
    move |table, key| table.get(key).unwrap_or(default)
}

impl DatabaseConfig {
    /// The error where `what` is missing or empty, and `create` is false.
    pub fn missing(&self, what: &str) -> ConfigProblem {
        let why = format!("allows no new database, and {what}");
        let remedy = "mount the volume that it is on, or correct database.url; if this is a new installation, run `hooklatch migrate` \
                      once, which creates the database";
        let value = Some("false".to_owned());
        ConfigProblem { value, ..ConfigProblem::new(&self.create_source, "database.create", why, remedy) }
    }
}

impl std::fmt::Debug for DatabaseConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseConfig")
            .field("create", &self.create)
            .field("migrate", &self.migrate)
            .field("connections_n", &self.connections_n)
            .field("connect_wait_ms", &self.connect_wait_ms)
            .field("pooling", &self.pooling)
            .field("replicated", &self.replicated)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

/// `[encryption]`: encryption at rest.
#[derive(Debug, Clone, Default)]
pub struct EncryptionConfig {
    /// Keys, newest first: the first seals, all open. None: nothing is sealed.
    pub keys: Vec<EncryptionKey>,
    /// True when nothing that is stored in the clear is read or sent.
    pub is_clear_refused: bool,
    /// True when it is written that rows in the clear are accepted.
    pub is_clear_accepted: bool,
}

/// A key of `[encryption] keys`, and where it is written.
#[derive(Debug, Clone)]
pub struct EncryptionKey {
    /// The key with its id.
    pub key: SealKey,
    /// The file, or the environment variable, that says it.
    pub source: String,
    /// The configuration key, such as `encryption.keys[0].key`.
    pub place: String,
}

impl EncryptionConfig {
    /// Takes its keys, which are secrets, out of `table`.
    pub fn read(table: &mut Table<'_>) -> Self {
        let keys = table.take("keys").map_or_else(Vec::new, |field| encryption_keys(&field));
        let is_written = table.peek("clear").is_some_and(|field| field.source != DEFAULTS_ORIGIN);
        let is_clear_refused =
            table.word("clear", &[("accept", false), ("refuse", true)]).unwrap_or_default();
        if is_clear_refused && keys.is_empty() {
            let remedy = "add a key, or write encryption.clear = \"accept\": without a key everything is stored in clear";
            table.missing("keys", remedy);
        }
        Self { keys, is_clear_refused, is_clear_accepted: is_written && !is_clear_refused }
    }

    /// The keys as the store wants them.
    pub fn ring(&self) -> KeyRing {
        let keys: Vec<SealKey> = self.keys.iter().map(|one| one.key.clone()).collect();
        KeyRing::new(&keys).refusing_clear(self.is_clear_refused)
    }

    /// What is wrong with a configuration without keys where the database was sealed with one of this id.
    pub fn missing(key_id: &str) -> ConfigProblem {
        let why = format!(
            "there is no key, and this database was sealed with the key under the id `{key_id}`: what is sealed would not \
             open, and what is new would be stored in the clear"
        );
        let remedy = "add the [encryption] section that the other nodes have, or write encryption.clear = \"accept\" to store in \
                      the clear from now on";
        ConfigProblem::new("", "encryption.keys", why, remedy)
    }

    /// What is wrong with the key of this id where the database knows another one under it.
    pub fn mismatch(&self, key_id: &str) -> ConfigProblem {
        let found = self.keys.iter().find(|one| one.key.id() == key_id);
        let (source, key) = found.map_or(("", ""), |one| (&one.source, &one.place));
        let why = format!(
            "the key under the id `{key_id}` is not the key that this database was sealed with: another key was used here under \
             that id"
        );
        let remedy = format!(
            "put that key back under `{key_id}` (is the secret complete, and the same on every node?), or give this key an id \
             that was never used"
        );
        ConfigProblem::new(source, key, why, remedy)
    }

    /// One line for people: whether it is on, and with which keys.
    pub fn in_words(&self) -> String {
        let Some((first, rest)) = self.keys.split_first() else {
            return "encryption at rest is off".to_owned();
        };
        let others = match rest.len() {
            0 => String::new(),
            n => format!(", {n} more open"),
        };
        let clear = if self.is_clear_refused { ", rows in clear are refused" } else { "" };
        format!("encryption at rest is on: `{}` seals{others}{clear}", first.key.id())
    }
}

fn encryption_keys(field: &Field<'_>) -> Vec<EncryptionKey> {
    let list = field.list().unwrap_or_default();
    if list.len() > KEYS_N_MAX {
        let why = format!("has {} entries, the limit is {KEYS_N_MAX}", list.len());
        field.problem(why, "remove those that `hooklatch keys` does not list any more");
    }
    let mut keys: Vec<EncryptionKey> = Vec::new();
    for field in list {
        let Some(key) = field.section(seal_key).flatten() else { continue };
        let id = key.id();
        if keys.iter().any(|other| other.key.id() == id) {
            let why = format!("has `{id}`, which is the id of two keys");
            field.problem(why, "give a new key a new id: what is stored names its key by it");
        } else if keys.iter().any(|other| other.key.is_same_as(&key)) {
            field.problem("has the key of another entry", "make a key for each");
        }
        keys.push(EncryptionKey { key, place: format!("{}.key", field.key), source: field.source });
    }
    keys
}

fn seal_key(table: &mut Table<'_>) -> Option<SealKey> {
    let shape = "a key is { id = \"2026-11\", key = { env = \"NAME\" } }";
    let id = table.needed("id", shape);
    let key = table.needed("key", shape);
    let id = id.and_then(|field| field.name("choose another id"));
    let field = key?;
    let secret = field.secret()?;
    let key = SealKey::parse(id?.as_str(), secret.reveal());
    key.map_err(|error| field.problem(error.to_string(), "make one with `openssl rand -hex 32`")).ok()
}

section! {
    /// `[retention]`: how long things are kept.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct RetentionConfig {
        /// Age at which bodies, and what was made of them, are deleted. Days.
        pub bodies_days: u32 = number(DAYS),
        /// Age at which attempts of finished messages are deleted. Days.
        pub attempts_days: u32 = number(DAYS),
        /// Age at which finished messages are deleted. Days; no less than the two above.
        pub messages_days: u32 = number(DAYS),
        /// Age at which lanes without messages are deleted. Days.
        pub lanes_days: u32 = number(DAYS),
        /// Age at which requests that were not believed are deleted. Days.
        pub rejections_days: u32 = number(DAYS),
        /// Age at which the last use of a secret is forgotten. Days.
        pub secret_uses_days: u32 = number(DAYS),
        /// Longest wait of a secret that a sender sent for pairing until an operator reads it. Days.
        pub pairing_days: u32 = number(DAYS),
        /// Age up to which a repeated request of an operator is recognized. Days.
        pub answers_days: u32 = number(DAYS),
        /// Age at which the record of what people decided is deleted. Days.
        pub audit_days: u32 = number(DAYS),
        /// Interval between two looks for what is old; 0 for never. Milliseconds.
        pub every_ms: u64 = number(0..=86_400_000),
        /// Age at which ids are forgotten, as the operator set it for every provider; as each kind needs when absent.
        /// Days.
        pub ids_days: Option<u32> = number_if_set(DAYS),
        /// Days for which each provider needs its ids, and why.
        pub ids_of: BTreeMap<Name, IdsKept> = by_loader(),
    }
}

/// The need of one provider for the ids of its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdsKept {
    /// Days, unless the operator says otherwise.
    pub days: u32,
    /// The reason for these days, in words that go on after the provider's name.
    pub why: String,
    /// The least that the operator may say. Days.
    pub days_min: u32,
    /// The reason for that least number of days.
    pub why_min: String,
}

impl RetentionConfig {
    /// Days for which the ids of `provider` are remembered; never less than its kind's floor. Of a provider that is no
    /// longer configured it is unknown what it needs.
    pub fn ids_days_for(&self, provider: &Name) -> u32 {
        let needed = self.ids_of.get(provider).map_or(ENDLESS_DAYS, |kept| kept.days);
        self.ids_days.unwrap_or(needed)
    }

    /// Days for which ids are remembered of providers that are no longer configured.
    pub fn ids_days_unknown(&self) -> u32 {
        self.ids_days.unwrap_or(ENDLESS_DAYS)
    }

    /// The provider that decides how long ids are remembered (the first by name of those that need it equally long),
    /// for how many days it needs them, and why: by what its kind needs, or, where the operator said for how long, by
    /// the least that could be said.
    pub fn deciding(&self) -> Option<(&Name, u32, &str)> {
        let needs = self.ids_of.iter().map(|(name, kept)| match self.ids_days {
            None => (name, kept.days, kept.why.as_str()),
            Some(_) => (name, kept.days_min, kept.why_min.as_str()),
        });
        needs.rev().max_by_key(|(_, days, _)| *days)
    }
}

section! {
    /// `[outbox]`: how messages are leased and looked for.
    #[derive(Debug, Clone)]
    pub struct OutboxConfig {
        /// Length of a lease: so long a worker may hold a message. Milliseconds, 1 s to 1 h.
        pub lease_ms: u64 = number(1_000..=3_600_000),
        /// Longest wait between two looks for due messages. Milliseconds.
        pub poll_ms: u64 = number(50..=60_000),
        /// Longest wait of a stop for calls under way. Milliseconds.
        pub stop_timeout_ms: u64 = number(0..=600_000),
    }
}

section! {
    /// `[fetch]`: how senders' own hosts are reached, where a kind's keys are fetched from them.
    #[derive(Debug, Clone, Default)]
    pub struct FetchConfig {
        /// The proxy to go through.
        pub proxy: Option<Secret> = proxy,
        /// Authorities to believe besides the system's, in PEM form.
        pub ca: Option<Secret>,
        /// Hosts and ranges that may be asked although they are private.
        pub private_hosts: Vec<String> = private_hosts,
    }
}

section! {
    /// `[tracing]`: spans of what became of events.
    #[derive(Debug, Clone)]
    pub struct TracingConfig {
        /// Where spans are posted, path included; `None`: there are no traces.
        pub endpoint: Option<String> = endpoint,
        /// Part of all traces that is recorded, 0 to 1.
        pub ratio: f64,
        /// Headers of each post, by name.
        pub headers: BTreeMap<String, Secret> = headers,
        /// Authorities to believe besides the system's, in PEM form.
        pub ca: Option<Secret>,
        /// Name of the service that the spans are of.
        pub service_name: String = service_name,
        /// Longest time that one post may take. Milliseconds.
        pub timeout_ms: u64 = number(100..=60_000),
        /// Most spans that wait to be posted.
        pub queue_n_max: u32 = number(1..=1_000_000),
        /// True when calls say which span they are of.
        pub propagate: bool,
        /// The rule for what senders say of spans of their own.
        pub inbound: InboundTraces,
    }
}

keywords! {
    /// The rule for what senders say of spans of their own.
    pub enum InboundTraces {
        /// It is not looked at.
        Ignore = "ignore",
        /// The admission's span has a link to it.
        Link = "link",
    }
}

/// The address of the collector, with the path that OTLP has for spans where none is written.
fn endpoint(table: &mut Table<'_>, key: &'static str) -> Option<String> {
    let (field, text) = table.filled_text(key)?;
    if !cfg!(feature = "otel") {
        let why = "needs the feature `otel`, which this program was built without";
        field.problem(why, "build it with `cargo build --features otel`");
    }
    let mut url = Url::parse(&http_url(&field, &text, UrlRule::Destination)?).ok()?;
    if matches!(url.path(), "" | "/") {
        url.set_path("/v1/traces");
    }
    Some(url.to_string())
}

fn headers(table: &mut Table<'_>, key: &'static str) -> BTreeMap<String, Secret> {
    let mut headers = BTreeMap::new();
    for (name, field) in table.entries_of(key) {
        let Some(secret) = field.secret() else { continue };
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            field.problem("is not the name of a header", "use letters, digits and `-`");
        } else if HeaderValue::from_str(secret.reveal()).is_err() {
            let remedy = "remove line breaks and everything that is no ASCII";
            field.problem("has characters that a header cannot carry", remedy);
        }
        headers.insert(name.to_ascii_lowercase(), secret);
    }
    headers
}

fn service_name(table: &mut Table<'_>, key: &'static str) -> String {
    let name = |text: &str| {
        let is_short = !text.trim().is_empty() && text.len() <= SERVICE_NAME_BYTES_MAX;
        let wrong = ("is no name", "write 1 to 255 bytes without control characters");
        if is_short && !text.contains(char::is_control) { Ok(text.to_owned()) } else { Err(wrong) }
    };
    table.take(key).and_then(|field| field.parsed(name)).unwrap_or_default()
}

section! {
    /// `[log]`: the lines that a process writes.
    #[derive(Debug, Clone)]
    pub struct LogConfig {
        /// A `tracing` filter such as `info` or `hooklatch=debug`.
        pub filter: String = log_filter,
        /// `auto` (human in a terminal, JSON otherwise), `human` or `json`.
        pub format: LogFormat,
    }
}

keywords! {
    /// Forms that a log line may have.
    pub enum LogFormat {
        /// Human in a terminal, JSON otherwise.
        Auto = "auto",
        /// Lines for people to read.
        Human = "human",
        /// One JSON object a line.
        Json = "json",
    }
}

/// The words that are levels.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

fn log_filter(table: &mut Table<'_>, key: &'static str) -> String {
    let Some((field, text)) = table.text(key) else { return String::new() };
    if text.trim().is_empty() || crate::logging::targets(&text).is_err() {
        field.problem_shown("is not a log filter", "write info, or \"info,hooklatch_outbox=debug\"");
    } else if let Some(word) = stray_word(&text) {
        let remedy = match nearest(word, LEVELS.into_iter().chain(["hooklatch"])) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("write a level ({}), or MODULE=LEVEL", LEVELS.join(", ")),
        };
        let why = format!("has `{word}`, which is no level, and a module of that name has no lines");
        field.warn(Some(shown(&text)), why, remedy);
    }
    text
}

/// The first word of a filter that is neither a level nor a module that is likely to exist: a wrong level is read as a
/// module, and then nothing at all is logged.
fn stray_word(filter: &str) -> Option<&str> {
    let is_level = |word: &str| {
        LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word)) || word.parse::<u8>().is_ok()
    };
    let mut words = filter.split(',').map(str::trim).filter(|word| !word.is_empty() && !word.contains('['));
    let is_stray = |word: &&str| match word.split_once('=') {
        // Modules of a user's own program, and of its libraries, are not known here.
        Some((module, _)) => {
            let first = module.split("::").next().unwrap_or_default();
            first != "hooklatch" && nearest(first, ["hooklatch"]).is_some()
        }
        None => !is_level(word) && !word.starts_with("hooklatch") && !word.contains("::"),
    };
    words.find(is_stray).and_then(|word| word.split(['=', ':']).next())
}

/// Path of `[kinds] folder`, and the source that says it. It is read before everything else: the kinds in it say what
/// is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindsFolder {
    /// Path of the folder; one that is not absolute is taken from the folder of the config file.
    pub path: PathBuf,
    /// Name of the file or variable that says it.
    pub source: String,
}
