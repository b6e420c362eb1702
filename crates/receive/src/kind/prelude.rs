//! What a kind's module is written with. Users have it as `hooklatch::kind::prelude`, where it is described; a kind's folder
//! is the same text here and there.

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
    Certificate, Form, Jws, PublicKey, PublicScheme, Reply, SignAt, SignError, Signed, Verified, Vouched,
    base64_text, compact_json, crc32, decode_base64_long, decode_base64url, form_with, hex_text, jws_chained,
    jws_detached, jws_hs256, jws_signed, open_aes_128_cbc, open_aes_gcm, path_and_query, php_serialized,
    query_value, rfc3339_text, seal_3des_cbc_zeros, seal_aes_128_cbc, seal_aes_gcm, sorted_json,
    standard_webhooks, vouched,
};
