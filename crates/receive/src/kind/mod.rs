//! Kinds: how one sort of sender signs and shapes its requests. [`fn@kind`] gives a built-in one, `folder.rs` reads
//! those of an operator's folder.

mod folder;

use crate::provider::{KindError, Provider};
use crate::providers::KINDS;
use hooklatch_core::mistakes::nearest;

pub use folder::{TakenNames, judge_pairs, judge_vectors, read_folder, sample_events, without_pairs};

pub mod prelude {
    //! For those who write verification, in a built-in kind's module or their own. The package `hooklatch` documents
    //! it.

    pub use serde_json::{self, json};

    pub use crate::provider::{Provider, WithCode};
    pub use hooklatch_verify::spec::TimeUnit;
    pub use hooklatch_verify::{
        Authenticated, AuthenticatedExt, Hash, Keys, KeysExt, RawRequest, VerifyError, check_timestamp,
        deciding_header, decode_base64, decode_hex, digest, hmac, same,
    };

    // For single built-in kinds: signing for tests, JWS, public keys, forms.
    pub use hooklatch_core::types::IdempotencyKey;
    pub use hooklatch_verify::read::{
        Json, json_elements, json_is_missing, json_members, json_raw, json_text, json_with, xml_as_json,
    };
    pub use hooklatch_verify::{
        Certificate, CertificateChain, Form, Jws, PublicKey, PublicScheme, Reply, SignAt, SignError, Signed,
        Verified, base64_text, compact_json, crc32, decode_base64_long, decode_base64url, form_with,
        hex_text, jws_chained, jws_detached, jws_hs256, jws_signed, open_aes_128_cbc, open_aes_gcm,
        path_and_query, php_serialized, query_value, rfc3339_text, seal_3des_cbc_zeros, seal_aes_128_cbc,
        seal_aes_gcm, sorted_json, standard_webhooks, vouched,
    };
}

/// The built-in kind of this name, with its verification and its sample events: the place for handlers of your own.
///
/// An unknown name does not panic: the start of the app, and `hooklatch check`, report it and suggest the nearest.
///
/// ```
/// use hooklatch::prelude::*;
///
/// #[derive(Deserialize)]
/// struct Invoice {
///     id: String,
/// }
///
/// fn invoice_paid(event: Event<Invoice>) -> Handled {
///     Ok(Effects::new().call("receipts", json!({ "invoice": event.payload.id })))
/// }
///
/// fn stripe() -> Provider {
///     kind("stripe").on("invoice.paid", invoice_paid)
/// }
/// # stripe();
/// ```
pub fn kind(name: &str) -> Provider {
    match KINDS.iter().find(|(known, _)| *known == name) {
        Some((_, make)) => make(),
        None => Provider::unusable(KindError::NoSuchKind {
            name: name.to_owned(),
            nearest: nearest(name, KINDS.iter().map(|(known, _)| *known)),
        }),
    }
}
