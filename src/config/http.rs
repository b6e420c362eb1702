//! What a destination's calls over HTTP look like: the types behind the keys of `destination/http.rs`.

use super::secret::Secret;
use super::status::StatusMeaning;

/// The HTTP part of `[destinations.NAME]`.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    /// Method of every call, a template or plain; the message's own (POST unless a handler says otherwise) when
    /// absent.
    pub method: Option<String>,
    /// What bodies are made of; the message's own when absent.
    pub body: Option<BodyConfig>,
    /// Private addresses (ranges) and hosts that a URL template may lead to.
    pub private_hosts: Vec<String>,
    /// What `Authorization` says.
    pub auth: Option<AuthConfig>,
    /// Signs each call with an HMAC in a header.
    pub hmac: Option<HmacConfig>,
    /// Whom we believe and who we are.
    pub tls: TlsConfig,
    /// The proxy that calls go through.
    pub proxy: Option<Secret>,
    /// Which HTTP is spoken.
    pub version: HttpVersion,
    /// Until the connection stands. Milliseconds; half of `timeout_ms` when absent.
    pub connect_timeout_ms: Option<u64>,
    /// What an answer's body must say.
    pub success: Option<SuccessConfig>,
    /// How much of answers is kept.
    pub capture: Option<CaptureConfig>,
}

/// `body` and `content_type`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyConfig {
    /// A template.
    pub template: String,
    /// Also decides how values are escaped.
    pub content_type: String,
}

/// `auth = { scheme, user, secret }`
#[derive(Debug, Clone)]
pub enum AuthConfig {
    /// RFC 7617.
    Basic {
        /// Without a colon.
        user: String,
        /// Its password.
        password: Secret,
    },
    /// RFC 6750.
    Bearer(Secret),
}

/// `hmac = { header, secret, … }`
#[derive(Debug, Clone)]
pub struct HmacConfig {
    /// Which header carries the signature.
    pub header: String,
    /// The key: the text's bytes.
    pub secret: Secret,
    /// Over which hash.
    pub algorithm: HmacAlgorithm,
    /// How it is written.
    pub encoding: HmacEncoding,
    /// What stands before it.
    pub prefix: String,
    /// What is signed, of `{body}`, `{timestamp}` (unix seconds of the attempt) and `{idempotency_key}`.
    pub signed: String,
    /// Which header carries the signed time.
    pub timestamp_header: Option<String>,
}

/// Hashes an HMAC can be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
}

/// How an HMAC is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacEncoding {
    /// Lower-case hexadecimal.
    Hex,
    /// Standard base64 with padding.
    Base64,
}

/// `tls = { ca, certificate, key }`, each in PEM form.
#[derive(Debug, Clone, Default)]
pub struct TlsConfig {
    /// Authorities to believe instead of the system's.
    pub ca: Option<Secret>,
    /// Our certificate, with its chain.
    pub certificate: Option<Secret>,
    /// Its private key.
    pub key: Option<Secret>,
}

/// `http_version`
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// What the destination prefers over TLS (ALPN); 1.1 without TLS.
    #[default]
    Auto,
    /// 1.1 only.
    Only11,
    /// 2 only, over TLS or not ("prior knowledge").
    Only2,
}

/// `success = { pointer, equals, otherwise }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessConfig {
    /// JSON pointer into the body of a good answer.
    pub pointer: String,
    /// The value that means success; any but `null` and `false` when absent.
    pub equals: Option<String>,
    /// What another value means.
    pub otherwise: StatusMeaning,
}

/// `capture = { bytes_max, redact }`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaptureConfig {
    /// Most bytes kept of one answer.
    pub bytes_max: u32,
    /// JSON pointers whose values are left out.
    pub redact: Vec<String>,
}
