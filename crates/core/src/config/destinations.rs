//! `[destinations.NAME]`: where messages go, and what an unclear answer means. The kinds of destinations are not known
//! here: `outbox/destinations` reads their keys and is the only one to look into a [`Target`].

use std::collections::BTreeMap;

use super::provider::RetryConfig;
use super::secret::Secret;
use super::value::keywords;
use crate::types::UnknownWord;

/// `[destinations.NAME]`: one destination and how it is called.
#[derive(Debug, Clone)]
pub struct DestinationConfig {
    /// The address that calls go to, or a template of one. With `serve --dev`, the built-in echo. Empty for what is
    /// not HTTP.
    pub url: String,
    /// The kind of destination, with the settings of that kind.
    pub target: Target,
    /// The form in which messages reach it.
    pub format: Format,
    /// Extra headers, such as `Authorization`; values are secrets.
    pub headers: BTreeMap<String, Secret>,
    /// The rule for calls with an unknown outcome.
    pub unknown: UnknownPolicy,
    /// Connect to last byte. Milliseconds; below the lease unless `heartbeat`.
    pub timeout_ms: u64,
    /// Most calls under way at once.
    pub concurrency_n: u32,
    /// True when the destination's answers decide how many calls may be under way, up to `concurrency_n`.
    pub adaptive: bool,
    /// The delays and the number of attempts after failures.
    pub retry: RetryConfig,
    /// Longest `Retry-After` that is honoured. Milliseconds.
    pub retry_after_max_ms: u64,
    /// Time for which the destination remembers a key. Milliseconds.
    pub key_valid_for_ms: u64,
    /// Most calls a second, on each node; 0 for no limit.
    pub rate_per_s: u32,
    /// Failures in a row after which nothing is sent for a while; 0 for never.
    pub breaker_failures_n: u32,
    /// Length of that while; then one call probes. Milliseconds.
    pub breaker_open_ms: u64,
    /// Statuses that mean something else here than they usually do.
    pub statuses: BTreeMap<u16, StatusMeaning>,
    /// Sign each call by Standard Webhooks (v1), so that the destination can believe it: none, one, or two while the
    /// destination changes from one to the other.
    pub sign_secrets: Vec<Secret>,
    /// True when a call may take longer than the lease, which is then prolonged while it is under way.
    pub heartbeat: bool,
    /// Settings that only calls over HTTP have.
    pub http: HttpConfig,
}

/// The rule for a call that was sent when it is unknown whether it took effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnknownPolicy {
    /// Send again under the same key: the destination honours it.
    Retry,
    /// Ask first, and send again only when the effect did not happen.
    Query(QueryConfig),
    /// Nothing is sent again until a person decides.
    Hold,
}

impl UnknownPolicy {
    /// The word of the configuration.
    pub fn word(&self) -> UnknownWord {
        match self {
            Self::Retry => UnknownWord::Retry,
            Self::Query(_) => UnknownWord::Query,
            Self::Hold => UnknownWord::Hold,
        }
    }
}

/// `query = { url, pointer, equals, pending, absent, after_ms }` beside `unknown = "query"`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueryConfig {
    /// GET this; `{idempotency_key}`, `{event_id}` and `{message_id}` are filled in, percent-encoded.
    pub url: String,
    /// JSON pointer into the answer; 404 or a missing value means "did not happen".
    pub pointer: String,
    /// The value that means "happened"; without it any that is neither pending nor absent. Another value settles
    /// nothing.
    pub equals: Option<String>,
    /// Values that mean "still under way: ask again".
    pub pending: Vec<String>,
    /// Values that mean "did not happen", as no value does.
    pub absent: Vec<String>,
    /// Time after an attempt's end during which its call may still be running at the destination. No question is asked
    /// before it is over. Milliseconds.
    pub after_ms: u64,
}

/// The place that messages go to, in the words of one kind of destination.
#[derive(Debug, Clone)]
pub struct Target {
    kind: &'static str,
    url: Secret,
    values: BTreeMap<&'static str, String>,
}

impl Target {
    /// Calls over HTTP, to the destination's `url`.
    pub fn http() -> Self {
        Self::new("http", Secret::new(""))
    }

    /// A destination of this kind; no url of a broker is ever shown, since it may hold a password.
    pub fn new(kind: &'static str, url: Secret) -> Self {
        Self { kind, url, values: BTreeMap::new() }
    }

    /// Adds the value of a key that belongs to its kind.
    pub fn with(mut self, key: &'static str, value: String) -> Self {
        self.values.insert(key, value);
        self
    }

    /// Name of the kind of destination: `http`, `nats`, ….
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The url of what is not called over HTTP.
    pub fn url(&self) -> &Secret {
        &self.url
    }

    /// The value of a key that belongs to its kind; empty when it is absent.
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }
}

keywords! {
    /// The form in which a message reaches its destination.
    pub enum Format {
        /// The body as it is; what else is known of it in headers, where the destination has them.
        Raw = "raw",
        /// `CloudEvents` 1.0, structured: one JSON document.
        CloudEvents = "cloudevents",
    }
}

/// Meanings of a status for the effect of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMeaning {
    /// The effect of the call happened.
    Done,
    /// The effect did not happen; the call is made again later.
    Retry,
    /// The call is refused for good.
    Dead,
    /// It is unknown whether it happened: `unknown` decides.
    Unknown,
}

/// The HTTP part of `[destinations.NAME]`.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    /// Method of every call, a template or plain; the message's own (POST unless a handler says otherwise) when
    /// absent.
    pub method: Option<String>,
    /// Template of bodies; the message's own body when absent.
    pub body: Option<BodyConfig>,
    /// Private addresses (ranges) and hosts that a URL template may lead to.
    pub private_hosts: Vec<String>,
    /// Credentials for the header `Authorization`.
    pub auth: Option<AuthConfig>,
    /// Signs each call with an HMAC in a header.
    pub hmac: Option<HmacConfig>,
    /// Whom we believe and who we are.
    pub tls: TlsConfig,
    /// The proxy that calls go through.
    pub proxy: Option<Secret>,
    /// Version of HTTP that is spoken.
    pub version: HttpVersion,
    /// Until the connection stands. Milliseconds; half of `timeout_ms` when absent.
    pub connect_timeout_ms: Option<u64>,
    /// Rule for the body of a good answer.
    pub success: Option<SuccessConfig>,
    /// The part of answers that is kept.
    pub capture: Option<CaptureConfig>,
}

/// `body` and `content_type`: a template and what it makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyConfig {
    /// Template of the body.
    pub template: String,
    /// Also decides how values are escaped.
    pub content_type: String,
}

/// `auth = { scheme, user, secret }`: the `Authorization` header of calls.
#[derive(Debug, Clone)]
pub enum AuthConfig {
    /// A user and a password (RFC 7617).
    Basic {
        /// Name of the user, without a colon.
        user: String,
        /// Password of that user.
        password: Secret,
    },
    /// A bearer token (RFC 6750).
    Bearer(Secret),
}

/// `hmac = { header, secret, … }`: a signature in a header of each call.
#[derive(Debug, Clone)]
pub struct HmacConfig {
    /// Name of the header that carries the signature.
    pub header: String,
    /// The key: the text's bytes.
    pub secret: Secret,
    /// Hash of the HMAC.
    pub algorithm: HmacAlgorithm,
    /// Encoding of the signature.
    pub encoding: HmacEncoding,
    /// Text before the signature.
    pub prefix: String,
    /// The signed text, made of `{body}`, `{timestamp}` (unix seconds of the attempt) and `{idempotency_key}`.
    pub signed: String,
    /// Name of the header that carries the signed time.
    pub timestamp_header: Option<String>,
}

keywords! {
    /// Hashes that an HMAC can be made with.
    pub enum HmacAlgorithm {
        /// An HMAC over SHA-256.
        Sha256 = "sha256",
        /// An HMAC over SHA-512.
        Sha512 = "sha512",
    }
}

keywords! {
    /// Encodings of an HMAC.
    pub enum HmacEncoding {
        /// Hexadecimal in lower case.
        Hex = "hex",
        /// Standard base64 with padding.
        Base64 = "base64",
    }
}

/// `tls = { ca, certificate, key }`, each in PEM form.
#[derive(Debug, Clone, Default)]
pub struct TlsConfig {
    /// Authorities to believe instead of the system's.
    pub ca: Option<Secret>,
    /// Our certificate, with its chain.
    pub certificate: Option<Secret>,
    /// Private key of our certificate.
    pub key: Option<Secret>,
}

keywords! {
    /// `http_version`: the version of HTTP that is spoken.
    pub enum HttpVersion {
        /// The version that the destination prefers over TLS (ALPN); 1.1 without TLS.
        Auto = "auto",
        /// HTTP/1.1 and no other.
        Only11 = "1.1",
        /// HTTP/2 and no other, over TLS or not ("prior knowledge").
        Only2 = "2",
    }
}

/// `success = { pointer, equals, otherwise }`: a value in a 2xx answer that says if the call succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessConfig {
    /// JSON pointer into the body of a good answer.
    pub pointer: String,
    /// The value that means success; any but `null` and `false` when absent.
    pub equals: Option<String>,
    /// Meaning of any other value.
    pub otherwise: StatusMeaning,
}

/// `capture = { bytes_max, redact }`: the part of answers that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Most bytes kept of one answer.
    pub bytes_max: u32,
    /// JSON pointers whose values are left out.
    pub redact: Vec<String>,
}
