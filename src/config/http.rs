//! Calls over HTTP as a destination wants them: the types behind the keys that `outbox/destinations/kinds/http/parse/`
//! reads.

use super::secret::Secret;
use super::status::StatusMeaning;

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

/// Hashes that an HMAC can be made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacAlgorithm {
    /// An HMAC over SHA-256.
    Sha256,
    /// An HMAC over SHA-512.
    Sha512,
}

/// Encodings of an HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacEncoding {
    /// Hexadecimal in lower case.
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
    /// Private key of our certificate.
    pub key: Option<Secret>,
}

/// `http_version`: the version of HTTP that is spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HttpVersion {
    /// The version that the destination prefers over TLS (ALPN); 1.1 without TLS.
    #[default]
    Auto,
    /// HTTP/1.1 and no other.
    Only11,
    /// HTTP/2 and no other, over TLS or not ("prior knowledge").
    Only2,
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
