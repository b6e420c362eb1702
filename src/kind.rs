//! Kinds: how one sort of sender signs and shapes its requests. The function [`kind`](crate::kind()) gives a built-in
//! one.
//!
//! A kind of your own begins with [`Provider::from_spec`](crate::Provider::from_spec) and the text of a
//! `provider.toml`. What no spec can say is code beside it, written with [`prelude`]: `verify_with`, `sign_with`,
//! `handshake_with`, `open_with`, `answer_with`.

pub mod prelude {
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
    //! # acme("kind = 7");
    //! ```
    //!
    //! A comparison with [`same`] takes the same time whatever is compared; `==` on a signature tells strangers how much of
    //! theirs was right.
    //!
    //! What is shown here is a contract. The prelude has more names, for single built-in kinds: signing for tests, JWS,
    //! public keys, forms. They may be used, and may change.

    #[doc(inline)]
    pub use hooklatch_receive::kind::prelude::{
        Believed, Hash, Keys, RawRequest, TimeUnit, VerifyError, check_timestamp, deciding_header,
        decode_base64, decode_hex, digest, hmac, same,
    };

    #[doc(hidden)]
    pub use hooklatch_receive::kind::prelude::*;
}
