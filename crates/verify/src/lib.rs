//! Pure: bytes in, [`Verified`] out. No clock, no network, no database.
//!
//! A request goes downwards through these files and never comes back up. In reading order:
//!
//! - `request.rs`, `error.rs`, `encoding.rs`, `time.rs`: a request and the texts in it, its errors, digests and
//!   ciphers;
//! - `keys.rs` turns configured secrets into keys; `public.rs` has public ones and chains of certificates, `private.rs`
//!   the other side of those, for `sign` and `send`, and for answers;
//! - `schemes.rs` has the named schemes, and `verified.rs` chooses one and compares the account. Only [`verify`] and
//!   [`Verified::by_operator`] (a test event, which an operator answers for) create a [`Verified`]: code that needs a
//!   verified request takes one as its argument;
//! - `handshake.rs` answers requests that are no event, `sign.rs` signs as a sender does, and `form.rs` and `jws.rs`
//!   help kinds that verify with code.
//! - `spec/` is `provider.toml` as data, and `read/` takes a [`Verified`] apart into events.
//!
//! Secrets are compared in constant time (`encoding.rs`, `same`) and never printed. Nothing here fetches a key: a
//! verification that lacks one returns [`VerifyError::KeyWanted`], and `receive/` fetches it.

mod encoding;
mod error;
mod form;
mod handshake;
mod jws;
mod keys;
mod private;
mod public;
pub mod read;
mod request;
mod schemes;
mod sign;
pub mod spec;
mod time;
mod verified;

pub use encoding::{
    Hash, base64_text, base64url_text, crc32, decode_base64, decode_base64_long, decode_base64url,
    decode_base64url_long, decode_hex, digest, hex_text, hmac, open_aes_128_cbc, open_aes_gcm, same,
    seal_3des_cbc_zeros, seal_aes_128_cbc, seal_aes_gcm,
};
pub use error::{FailedAt, KEY_ID_BYTES_MAX, KeyError, SignError, VerifyError, failed_at, not_fetched};
pub(crate) use form::form_without;
pub use form::{FIELDS_N_MAX, Form, compact_json, form_with, php_serialized, sorted_json};
pub use handshake::{Reply, reply};
pub use jws::{Jws, jws_chained, jws_detached, jws_hs256, jws_signed};
pub use keys::{KeySource, Keys, KeysExt};
pub use private::{DevKeys, SigningKey, is_published};
pub use public::{Certificate, CertificateChain, PublicKey, PublicScheme, vouched};
pub use request::{
    HEADER_BYTES_MAX, RawRequest, deciding_header, path_and_query, query_value, with_query_as_body,
};
pub use schemes::standard_webhooks;
pub use sign::{SignAt, Signed, sign, unsigned};
pub use time::{check_timestamp, happened_ms, rfc3339_ms, rfc3339_text};
pub use verified::{
    Authenticated, AuthenticatedExt, RejectedRequest, Unverified, Verified, VerifyFn, verify,
};
