//! For people who write verification: `use hooklatch::kind::prelude::*;` in a kind's module, built in or your own.
//!
//! ```
//! use hooklatch::kind::prelude::*;
//!
//! /// The hex digest of the body stands in one header.
//! fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
//!     let given = deciding_header(&request.headers, "acme-signature")?;
//!     let given = decode_hex(given).ok_or_else(|| VerifyError::malformed("acme-signature", "it is not hexadecimal"))?;
//!     let is_of = |secret: &str| same(&hmac(Hash::Sha256, secret.as_bytes(), &[&request.body]), &given);
//!     let secret_n = keys.secrets().position(is_of).ok_or_else(|| VerifyError::mismatch(keys))?;
//!     Ok(Believed::of(secret_n, &[&request.body]))
//! }
//!
//! fn acme(spec: &str) -> Provider {
//!     Provider::from_spec(spec).verify_with(verify)
//! }
//! # assert_eq!(acme("kind = 7").kind(), "?");
//! ```
//!
//! A comparison with [`same`] takes the same time whatever is compared; the time of `==` on a signature shows strangers
//! how much of theirs was right.
//!
//! What is shown here is a contract. The prelude has more names, for single built-in kinds: signing for tests, JWS,
//! public keys, forms. They may be used, and may change.

pub use serde_json::{self, json};

pub use crate::provider::Provider;
pub use hooklatch_verify::spec::TimeUnit;
pub use hooklatch_verify::{
    Believed, Hash, Keys, RawRequest, VerifyError, check_timestamp, deciding_header, decode_base64,
    decode_hex, digest, hmac, same,
};

// For single built-in kinds: signing for tests, JWS, public keys, forms.
pub use hooklatch_core::types::IdempotencyKey;
pub use hooklatch_verify::read::{
    Json, json_elements, json_is_missing, json_members, json_raw, json_text, json_with, xml_as_json,
};
pub use hooklatch_verify::{
    BelievedExt, Certificate, Form, Jws, KeysExt, PublicKey, PublicScheme, Reply, SignAt, SignError, Signed,
    Verified, Vouched, base64_text, compact_json, crc32, decode_base64_long, decode_base64url, form_with,
    hex_text, jws_chained, jws_detached, jws_hs256, jws_signed, open_aes_128_cbc, open_aes_gcm,
    path_and_query, php_serialized, query_value, rfc3339_text, seal_3des_cbc_zeros, seal_aes_128_cbc,
    seal_aes_gcm, sorted_json, standard_webhooks, vouched,
};
