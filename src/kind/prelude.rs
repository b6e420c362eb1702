//! For who writes verification: `use hooklatch::kind::prelude::*;` in a kind's module, built in or your own.
//!
//! A comparison with [`same`] takes the same time whatever is compared; `==` on a signature tells strangers how much of
//! theirs was right. Start at [`Provider::verify_with`].

pub use serde_json::{self, json};

pub use crate::provider::Provider;
pub use crate::read::{Json, json_text};
pub use crate::verify::{
    Believed, Hash, Keys, RawRequest, SignAt, SignError, Signed, VerifyError, check_timestamp,
    deciding_header, decode_base64, decode_hex, digest, hex_text, hmac, same,
};

// What single built-in kinds need besides. A kind of your own may use these too; they are no contract.
#[doc(hidden)]
pub use crate::read::{json_elements, json_is_missing, json_raw, json_with, xml_as_json};
#[doc(hidden)]
pub use crate::spec::TimeUnit;
#[doc(hidden)]
pub use crate::verify::{
    Certificate, Form, Jws, PublicKey, PublicScheme, Reply, Vouched, base64_text, compact_json, crc32,
    decode_base64_long, decode_base64url, form_with, jws_chained, jws_detached, jws_hs256, jws_signed,
    open_aes_128_cbc, open_aes_gcm, path_and_query, php_serialized, query_value, rfc3339_text,
    seal_aes_128_cbc, seal_aes_gcm, sorted_json, standard_webhooks, vouched,
};
