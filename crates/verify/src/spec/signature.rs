//! `[signature]`: where a signature is, what it covers, and with which keys.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::event::Source;
use super::misfits::{NEEDS_CODE, misfit, refuse};
use super::pattern::{Layout, LayoutSlot, Pattern, Piece};
use crate::Hash;
use hooklatch_core::mistakes::Mistake;

/// The signature of a request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct SignatureSpec {
    /// Name of the scheme.
    pub scheme: Scheme,
    /// The sender's way of signing, in a few words for people; for the scheme `code`, whose name says nothing.
    pub in_words: Option<String>,
    /// Counts only when this header is present; for `[alternative]`.
    pub when_header: Option<String>,
    /// The setting that says that this is the only way, whether its header is there or not; for `[alternative]`.
    pub required_by: Option<String>,
    /// Headers that may carry the signature; the first one present counts. `x-sig-*` is a family with
    /// numbers, of which any may match.
    #[serde(default)]
    pub headers: Vec<String>,
    /// True when the header may be there several times; any may match.
    #[serde(default)]
    pub repeated: bool,
    /// Place of the signature or token in a JSON body, instead of a header: of signatures several separated by `|`, any
    /// of which may match. With `each`, in every element.
    pub json: Option<String>,
    /// JSON pointer to the array whose every element holds the token.
    pub each: Option<String>,
    /// The value of the query that is the token, where events come by GET and the sender adds nothing to the URL that
    /// it was given. It stands in the logs of proxies.
    pub query: Option<String>,
    /// The header's shape: `{signature}`, `sha256={signature}`, `t={timestamp},v1={signature}`.
    #[serde(default)]
    pub layout: Layout,
    /// The signed text, such as `{timestamp}.{body}`; the places are those of [`Piece`].
    #[serde(default)]
    pub signed: Pattern,
    /// Encoding of the signature.
    #[serde(default)]
    pub encoding: Encoding,
    /// Form in which a secret is configured: how it becomes key bytes.
    #[serde(default)]
    pub secret: SecretFormat,
    /// Character between several secrets that the sender shows as one text.
    pub secret_separator: Option<char>,
    /// Text that the sender puts before a secret, to be left out.
    pub secret_strip: Option<String>,
    /// Fewest key bytes that the server starts with: 16, and 8 at least where a sender's own secrets are shorter.
    #[serde(default = "sixteen")]
    pub secret_bytes_min: usize,
    /// True when `secrets` has to be configured.
    #[serde(default = "yes")]
    pub secrets_needed: bool,
    /// The setting that holds the keys, each with its id where the sender names one.
    pub keys: Option<String>,
    /// True when keys that the setting does not hold are fetched from the sender (`[[fetch]]`).
    #[serde(default)]
    pub keys_fetched: bool,
    /// The header that says which key signed; a key of another id is not tried.
    pub key_id_header: Option<String>,
    /// The header with the timestamp, when the layout has none.
    pub timestamp_header: Option<String>,
    /// The JSON pointer to the timestamp, when it is in the signed body.
    pub timestamp_json: Option<String>,
    /// Form of the timestamp.
    #[serde(default)]
    pub timestamp_unit: TimeUnit,
    /// The sender existed from then on; an earlier time is an error of its own. Unix seconds.
    pub timestamp_min_s: Option<i64>,
    /// Greatest age of a signed time. Seconds; absent when nothing is signed about time, or nothing is checked.
    pub tolerance_s: Option<u32>,
    /// Furthest that a signed time may be ahead. Seconds; `tolerance_s` unless set.
    pub tolerance_future_s: Option<u32>,
    /// Page that says that the sender signs each attempt anew, with the time of the attempt: a retry is then as young
    /// as a first attempt, and `tolerance_s` may be shorter than `retry_span_s`.
    pub attempts_signed_anew: Option<String>,
    /// True when some of the sender's signatures cover no time: a recorded request of those can be sent again at any
    /// time, and ids are remembered accordingly.
    #[serde(default)]
    pub time_optional: bool,
    /// True when the age of a signed time is left unchecked, because the sender bounds it nowhere.
    #[serde(default)]
    pub age_unchecked: bool,
    /// Headers that must be there with these values: texts, or the digest of the body, which is computed.
    #[serde(default)]
    pub required_headers: BTreeMap<String, Pattern>,
    /// True when an empty body is refused however it is signed.
    #[serde(default)]
    pub body_needed: bool,
    /// True when a body that is no JSON object is refused however it is signed.
    #[serde(default)]
    pub body_object: bool,
    /// Weakness of this scheme, shown to operators who choose it.
    pub weak: Option<Weakness>,
    /// True when the sender may send without any signature; taken only with `unverified = "accept"`.
    #[serde(default)]
    pub may_be_unsigned: bool,
    /// True when an identity of the kind goes by what was signed; set when the spec is read.
    #[serde(skip)]
    pub is_signed_text_needed: bool,
}

fn sixteen() -> usize {
    16
}
fn yes() -> bool {
    true
}

/// The schemes that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// An HMAC-SHA-256 over `signed`.
    HmacSha256,
    /// An HMAC-SHA-384 over `signed`.
    HmacSha384,
    /// An HMAC-SHA-512 over `signed`.
    HmacSha512,
    /// HMAC-SHA-1 over `signed`; only for senders that offer nothing else.
    HmacSha1,
    /// Standard Webhooks v1 (HMAC-SHA-256) and v1a (Ed25519); `headers` holds the header prefixes.
    StandardWebhooks,
    /// A plain SHA-256 of `signed`, which has the secret in it: `{secret}`.
    HashSha256,
    /// A plain SHA-512 of `signed`, which has the secret in it.
    HashSha512,
    /// An Ed25519 signature over `signed`.
    Ed25519,
    /// ECDSA on P-256 with SHA-256 over `signed`, in DER.
    EcdsaP256,
    /// RSA PKCS#1 v1.5 with SHA-256 over `signed`.
    RsaSha256,
    /// RSA PKCS#1 v1.5 with SHA-1 over `signed`; only for senders that offer nothing else.
    RsaSha1,
    /// One of the secrets itself, sent along: it authenticates the sender, not the content.
    Token,
    /// HTTP Basic with the settings `username` and `password`: as weak as a token.
    Basic,
    /// The sender signs nothing.
    Unsigned,
    /// The kind's `mod.rs` verifies (`Provider::verify_with`).
    Code,
}

impl Scheme {
    /// True when it is verified with a public key.
    pub fn is_public(self) -> bool {
        matches!(self, Self::Ed25519 | Self::EcdsaP256 | Self::RsaSha256 | Self::RsaSha1)
    }

    /// True when it is a plain hash of a text with the secret in it.
    pub fn is_hash(self) -> bool {
        matches!(self, Self::HashSha256 | Self::HashSha512)
    }

    /// The digest of its HMAC or hash.
    pub(crate) fn hash(self) -> Hash {
        match self {
            Self::HmacSha1 => Hash::Sha1,
            Self::HmacSha384 => Hash::Sha384,
            Self::HmacSha512 | Self::HashSha512 => Hash::Sha512,
            _ => Hash::Sha256,
        }
    }

    /// True when it is an HMAC over `signed`.
    pub fn is_mac(self) -> bool {
        matches!(self, Self::HmacSha1 | Self::HmacSha256 | Self::HmacSha384 | Self::HmacSha512)
    }
}

/// Weaknesses that a scheme can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weakness {
    /// Anyone who has seen one request can send any.
    Token,
    /// The signature does not cover the whole body.
    Body,
    /// No part of a request is signed.
    Unsigned,
}

impl Weakness {
    /// The weakness in plain words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Token => "a shared token: the body is not signed",
            Self::Body => "the body, or a part of it, is not signed",
            Self::Unsigned => "nothing is signed",
        }
    }
}

/// Encodings of a signature in its header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Encoding {
    /// Hexadecimal in lower case.
    #[default]
    Hex,
    /// Hexadecimal of either case.
    HexAny,
    /// Standard base64 with padding.
    Base64,
    /// URL-safe base64 without padding.
    Base64Url,
    /// Standard base64 of the lower-case hexadecimal text.
    Base64Hex,
}

/// Forms of a timestamp.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeUnit {
    /// Seconds since 1970 (unix time).
    #[default]
    S,
    /// Milliseconds since 1970 (unix time).
    Ms,
    /// Unix seconds, or milliseconds from thirteen digits on: senders whose documentation disagrees with itself.
    SOrMs,
    /// A text by RFC 3339.
    Rfc3339,
    /// A date as HTTP headers have it: `Thu, 30 Mar 2023 08:38:32 GMT`.
    HttpDate,
}

/// Form in which a secret is configured: how it becomes key bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SecretFormat {
    /// The text's UTF-8 bytes as they are.
    #[default]
    Text,
    /// Hexadecimal of either case.
    Hex,
    /// The standard alphabet of base64.
    Base64,
    /// Base64 behind an optional `whsec_`; `whpk_` is an Ed25519 public key.
    Whsec,
    /// Read as `whsec` when it has that prefix; else the text as it is.
    WhsecOrText,
}

/// Fewest bytes that a kind may allow: shorter secrets are guessed.
const SECRET_BYTES_MIN: usize = 8;
/// The attack on hashes with the secret in front, and where it leads nowhere.
pub(super) const LENGTH_EXTENSION: &str = "with {secret} in front of a plain hash, who has seen one signed text can sign it \
     with more bytes behind it (length extension): that leads nowhere only where {body} stands last and every body is JSON; \
     otherwise this sender needs a mod.rs and a build: \"Where the file ends\" in providers/README.md";

impl SignatureSpec {
    /// `Some` for schemes that sign nothing, in words.
    pub(super) fn nothing_covered(&self) -> Option<String> {
        matches!(self.scheme, Scheme::Token | Scheme::Basic | Scheme::Unsigned).then(|| "anything".to_owned())
    }

    /// True when the signature covers this header; for code the kind declares it.
    pub(super) fn covers_header(&self, name: &str) -> bool {
        let is_this = |other: &str| other.eq_ignore_ascii_case(name);
        match self.scheme {
            Scheme::Code => true,
            // Of two families, a request is signed under one, and anybody could add the other.
            Scheme::StandardWebhooks => match self.headers.as_slice() {
                [prefix] => ["id", "timestamp"].iter().any(|stem| is_this(&format!("{prefix}{stem}"))),
                _ => false,
            },
            _ => self.signed.pieces().iter().any(|piece| match piece {
                Piece::Header(signed) => is_this(signed),
                Piece::Timestamp => self.timestamp_header.as_deref().is_some_and(is_this),
                _ => false,
            }),
        }
    }

    /// The part of `source` that the signature does not cover, in words; what code reads is known to that code alone.
    pub(super) fn uncovered(&self, source: &Source) -> Option<String> {
        let is_standard = self.scheme == Scheme::StandardWebhooks;
        if self.scheme == Scheme::Code {
            return None;
        }
        match source {
            Source::Header(names) => {
                let open = names.split('|').find(|name| !self.covers_header(name))?;
                Some(format!("the header `{open}`"))
            }
            Source::Text(_) | Source::SignedTime(_) => None,
            Source::SignedId(_) => (!is_standard).then(|| "an id".to_owned()),
            Source::Json(pointer) if self.signed.has(&Piece::Json(pointer.clone())) => None,
            _ if is_standard || self.signed.covers_body() => None,
            _ => Some("the body".to_owned()),
        }
    }

    /// True when the signature covers the URL as the sender called it.
    pub fn has_signed_url(&self) -> bool {
        [Piece::Url, Piece::Host, Piece::Path, Piece::PathAndQuery].iter().any(|piece| self.signed.has(piece))
    }

    /// True when the secret is before the hashed text: a holder of one signed text can then sign that text with
    /// more bytes behind it (length extension), which no JSON text can have.
    pub fn is_secret_first(&self) -> bool {
        self.scheme.is_hash() && self.signed.pieces().first() == Some(&Piece::Secret)
    }

    /// Greatest age of a signed time, and furthest that it may be ahead; 0 where no time is checked. Seconds.
    pub fn tolerances_s(&self) -> (u32, u32) {
        let past_s = self.tolerance_s.unwrap_or_default();
        (past_s, self.tolerance_future_s.unwrap_or(past_s))
    }

    pub fn check(&self) -> Result<(), Mistake> {
        let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        if let Some(name) = self.headers.iter().find(|name| !is_name(name.trim_end_matches('*'))) {
            return Err(misfit("signature.headers", format!("`{name}` is not the name of a header")));
        }
        if self.secret_bytes_min < SECRET_BYTES_MIN {
            return Err(misfit("signature.secret_bytes_min", format!("write {SECRET_BYTES_MIN} or more")));
        }
        if let Some(page) = &self.attempts_signed_anew {
            refuse(
                !page.starts_with("https://"),
                "signature.attempts_signed_anew",
                format!("`{page}` is not the address of the page that says so"),
            )?;
            refuse(
                self.tolerance_s.is_none(),
                "signature.attempts_signed_anew",
                "there is no tolerance_s that it could be for",
            )?;
        }
        match self.scheme {
            Scheme::Unsigned if !self.may_be_unsigned => {
                return Err(misfit("signature.may_be_unsigned", "an unsigned scheme is nothing else"));
            }
            Scheme::Unsigned | Scheme::Basic | Scheme::Token if self.weak.is_none() => {
                return Err(misfit("signature.weak", "say what this scheme leaves open"));
            }
            Scheme::Code | Scheme::Unsigned | Scheme::Basic => return Ok(()),
            Scheme::StandardWebhooks if self.tolerance_s.is_none() => {
                return Err(misfit(
                    "signature.tolerance_s",
                    "standard-webhooks signs a time, so it needs a tolerance",
                ));
            }
            _ => {}
        }
        if self.headers.is_empty() && self.json.is_none() && self.query.is_none() {
            return Err(misfit("signature.headers", "name at least one header"));
        }
        if self.query.is_some() && (self.scheme != Scheme::Token || self.json.is_some()) {
            return Err(misfit("signature.query", "it is the place of a token, where there is no other"));
        }
        let is_fixed = |piece: &Piece| matches!(piece, Piece::Literal(_) | Piece::BodySha256(_));
        if let Some(text) = self.required_headers.values().find(|one| !one.pieces().iter().all(is_fixed)) {
            let why = format!("`{}`: write a text, {{sha256:body}} or {{sha256_base64:body}}", text.as_str());
            return Err(misfit("signature.required_headers", why));
        }
        if matches!(self.scheme, Scheme::StandardWebhooks | Scheme::Token) {
            return Ok(());
        }
        self.check_signed()
    }

    /// Checks that a plain hash has the secret in it, at a place where the text behind it cannot be lengthened.
    fn check_secret(&self) -> Result<(), Mistake> {
        let wrong = |why: &str| Err(misfit("signature.signed", why));
        let pieces = self.signed.pieces();
        let secrets_n = pieces.iter().filter(|piece| **piece == Piece::Secret).count();
        if !self.scheme.is_hash() {
            return match secrets_n {
                0 => Ok(()),
                _ => wrong(
                    "{secret} is for the schemes hash-sha256 and hash-sha512: this one has it as its key",
                ),
            };
        }
        if secrets_n != 1 {
            return wrong(
                "anybody can hash a text without a secret in it: write {secret} once, where the sender has it",
            );
        }
        match (pieces.first(), pieces.last()) {
            (_, Some(Piece::Secret)) | (Some(Piece::Secret), Some(Piece::Body)) => Ok(()),
            (Some(Piece::Secret), _) => wrong(LENGTH_EXTENSION),
            _ => wrong(&format!(
                "{{secret}} stands last, or first with {{body}} last; for any other place {NEEDS_CODE}"
            )),
        }
    }

    fn check_signed(&self) -> Result<(), Mistake> {
        self.check_secret()?;
        if !self.signed.covers_body() && self.weak.is_none() {
            let why = format!(
                "`{}` does not cover {{body}}: a header that holds its digest proves nothing by itself, so write \
                 {{sha256:body}} or {{sha256_base64:body}} in its place; where only some fields are signed, weak = \"body\"",
                self.signed.as_str().escape_debug()
            );
            return Err(misfit("signature.signed", why));
        }
        let has_time = self.layout.has(LayoutSlot::Timestamp) || self.timestamp_header.is_some();
        refuse(
            self.tolerance_s.is_some() && !has_time && self.timestamp_json.is_none(),
            "signature.tolerance_s",
            "no {timestamp} in the layout and no timestamp_header",
        )?;
        if self.age_unchecked && self.tolerance_s.is_some() {
            return Err(misfit("signature.age_unchecked", "there is a tolerance_s: leave one of them out"));
        }
        if self.tolerance_s == Some(0) {
            return Err(misfit("signature.tolerance_s", "0 refuses every request: write seconds"));
        }
        let is_bounded = self.tolerance_s.is_some() || self.age_unchecked;
        if has_time && !(is_bounded && self.signed.has(&Piece::Timestamp)) {
            return Err(misfit("signature", "a timestamp must be in `signed` and have a tolerance_s"));
        }
        if self.signed.has(&Piece::Timestamp) && !has_time && self.timestamp_json.is_none() {
            return Err(misfit("signature.signed", "{timestamp} is nowhere to be found"));
        }
        Ok(())
    }
}
