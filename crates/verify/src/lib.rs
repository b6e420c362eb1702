//! Pure: bytes in, [`Verified`] out. No clock, no network, no database.
//!
//! A request goes downwards through these files and never comes back up. In reading order:
//!
//! - `request.rs`, `error.rs`, `encoding.rs`, `time.rs`: a request, its errors, and the texts in it;
//! - `keys.rs` turns configured secrets into keys (`key.rs` is one of them, `public.rs` and `p521.rs` public ones,
//!   `chain.rs` those of certificates); `private.rs` is the other side of those, for `sign` and `send`;
//! - `filled.rs` writes the text that is signed; `signed.rs`, `standard.rs` and `token.rs` are the named schemes;
//! - `verified.rs` chooses the scheme. Only [`verify`] and [`Verified::by_operator`] (a test event, which an operator
//!   answers for) create a [`Verified`]: code that needs a verified request takes one as its argument;
//! - `handshake.rs` answers requests that are no event, `sign.rs` signs as a sender does, and `form.rs`, `jws.rs`,
//!   `canonical.rs` and `seal.rs` help kinds that verify with code.
//! - `believed.rs` is what a scheme found, `whose.rs` compares the account, `own_key.rs` signs answers;
//! - `spec/` is `provider.toml` as data, and `read/` takes a [`Verified`] apart into events.
//!
//! Secrets are compared in constant time (`encoding.rs`, `same`) and never printed. Nothing here fetches a key: a
//! verification that lacks one returns [`VerifyError::KeyWanted`], and `receive/` fetches it.

mod believed;
mod canonical;
mod chain;
mod encoding;
mod error;
mod filled;
mod form;
mod handshake;
mod jws;
mod key;
mod keys;
mod own_key;
mod p521;
mod private;
mod public;
pub mod read;
mod request;
mod seal;
mod sign;
mod signed;
pub mod spec;
mod standard;
mod time;
mod token;
mod verified;
mod whose;

pub use believed::{Believed, Evidence};
pub use canonical::{compact_json, php_serialized, sorted_json};
pub use chain::{CertificateChain, vouched};
pub use encoding::{
    Hash, base64_text, base64url_text, crc32, decode_base64, decode_base64_long, decode_base64url,
    decode_base64url_long, decode_hex, digest, hex_text, hmac, same,
};
pub use error::KEY_ID_BYTES_MAX;
pub use error::{KeyError, SignError, VerifyError};
pub use filled::{path_and_query, query_value};
pub(crate) use form::form_without;
pub use form::{FIELDS_N_MAX, Form, form_with};
pub use handshake::{Reply, reply};
pub use jws::{Jws, jws_chained, jws_detached, jws_hs256, jws_signed};
pub use keys::{KeySource, Keys};
pub use private::is_published;
pub use private::{DevKeys, SigningKey};
pub use public::{Certificate, PublicKey, PublicScheme};
pub use request::{HEADER_BYTES_MAX, RawRequest, deciding_header};
pub use seal::{open_aes_128_cbc, open_aes_gcm, seal_3des_cbc_zeros, seal_aes_128_cbc, seal_aes_gcm};
pub use sign::unsigned;
pub use sign::{SignAt, Signed, sign};
pub use standard::standard_webhooks;
pub use time::{check_timestamp, rfc3339_text};
pub use time::{happened_ms, rfc3339_ms};
pub use verified::{RejectedRequest, Unverified, Verified, VerifyFn, verify};
