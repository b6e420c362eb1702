//! Hooklatch: a webhook receiver that a team can trust with money.
//!
//! It verifies a sender's signature, latches the event exactly once, and makes every call that follows
//! from it happen exactly once in effect.
//!
//! A program of yours begins with a built-in kind and a handler ([`prelude`]):
//!
//! ```no_run
//! use hooklatch::prelude::*;
//!
//! #[derive(Deserialize)]
//! struct Invoice {
//!     id: String,
//! }
//!
//! fn invoice_paid(event: Event<Invoice>) -> Handled {
//!     Ok(Effects::new().call("receipts", json!({ "invoice": event.payload.id })))
//! }
//!
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     App::load(None, vec![kind("stripe").on("invoice.paid", invoice_paid)])?.run().await
//! }
//! ```
//!
//! or, to have every command of ours as well, with [`cli::main`]. `docs/library.md` goes from `cargo add` to a tested
//! handler. In the order of need: [`handler`], [`App`], [`testing`], and [`kind`](mod@kind) for verification of your
//! own.
//!
//! What is shown here is a contract. The crates below are not: they may change with every version. `ARCHITECTURE.md` is
//! the map; they are read best in this order, from bytes to calls:
//!
//! 1. `hooklatch-verify`: how one kind of sender signs and shapes its webhooks; pure functions from bytes to events.
//! 2. `hooklatch-receive`: providers and handlers; one transaction for everything that waits, and the answer it allows.
//! 3. `hooklatch-store`: the only SQL, on SQLite and PostgreSQL.
//! 4. `hooklatch-outbox`: leases, calls, settlements.
//! 5. `hooklatch-operator`, `hooklatch-console`: listeners, the operators' API, its pages.
//! 6. `app` and `cli` in this crate: the process around them.

mod app;
pub mod cli;
pub mod testing;
#[cfg(test)]
mod tests;

pub use app::{App, Background, Running};
#[doc(inline)]
pub use hooklatch_receive::{kind::kind, provider::Provider};
#[doc(inline)]
pub use hooklatch_store::MigrationStep;

/// Rust that pages show, compiled as doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
#[doc = include_str!("../docs/handlers.md")]
#[doc = include_str!("../docs/library.md")]
mod pages {}

pub mod handler {
    //! Handlers, which users write: from an event to effects.
    //!
    //! A plain handler does no I/O (its signature has no `async`): it runs between two statements of the transaction
    //! that admits the event. A transactional handler gets that transaction, in one of its own.
    //!
    //! An [`Event`] goes in; [`Effects`] or a [`HandlerError`] come out.

    #[doc(inline)]
    pub use hooklatch_receive::handler::{
        DbError, Effects, Envelope, Event, Handled, HandlerError, Headers, Message, Name, Row, Tx, Value,
        ignore, refuse,
    };
}

pub mod idempotency {
    //! `Idempotency-Key` for routes of your own: a layer for an axum 0.8 router that carries a request out once and
    //! answers its repetitions with the first answer.
    //!
    //! The layer comes from [`Background::idempotency`](crate::Background::idempotency). Requests that may change
    //! something (all but GET, HEAD, OPTIONS and TRACE) need a key: 1 to 255 visible ASCII characters, bare or as a
    //! quoted string. Keys belong to a principal, whom you name.
    //!
    //! | a request under a key | answer |
    //! |---|---|
    //! | is new | your handler's |
    //! | was answered 2xx, 3xx or 4xx | that answer again, with `Idempotency-Replayed: true` |
    //! | is being carried out | that answer, if it comes within [`wait`](IdempotencyLayer::wait); else 409 `idempotency_key_in_use` with `Retry-After` |
    //! | is another request than the first | 422 `idempotency_key_reused`, or [another status](IdempotencyLayer::mismatch_status) |
    //! | was answered 401, 403, 408, 425, 429 or 5xx, panicked, or was not answered within its [`lock`](IdempotencyLayer::lock) | your handler is asked again |
    //!
    //! Without a key the answer is 400 `idempotency_key_missing`; with something else as a key, several or a list of
    //! them 400 `idempotency_key_malformed`. Each answer says in `Idempotency-Expires-At-Ms` until when the key is
    //! known.
    //!
    //! A handler by itself takes effect *at least once*: a process that dies between the effect and the answer leaves a
    //! key that the next request takes over. Where the effect is in the database of Hooklatch, [`IdempotencyClaim`]
    //! makes the effect and the answer one commit, and it is *exactly once*.

    #[doc(inline)]
    pub use hooklatch_receive::idempotency::{IdempotencyClaim, IdempotencyLayer};
}

pub mod kind {
    //! Kinds: how one sort of sender signs and shapes its requests. The function [`kind`](crate::kind()) gives a
    //! built-in one.
    //!
    //! A kind of your own begins with [`Provider::from_spec`](crate::Provider::from_spec) and the text of a
    //! `provider.toml`. What no spec can say is code beside it, written with [`prelude`]: `verify_with`, `sign_with`,
    //! `handshake_with`, `open_with`, `answer_with`.

    pub mod prelude {
        //! For people who write verification: `use hooklatch::kind::prelude::*;` in a kind's module, built in or your
        //! own.
        //!
        //! ```
        //! use hooklatch::kind::prelude::*;
        //!
        //! /// The hex digest of the body stands in one header.
        //! fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
        //!     let given = deciding_header(&request.headers, "acme-signature")?;
        //!     let given = decode_hex(given).ok_or_else(|| VerifyError::malformed("acme-signature", "it is not hexadecimal"))?;
        //!     let is_of = |secret: &str| same(&hmac(Hash::Sha256, secret.as_bytes(), &[&request.body]), &given);
        //!     let secret_n = keys.secrets().position(is_of).ok_or_else(|| VerifyError::mismatch(keys))?;
        //!     Ok(Authenticated::of(secret_n, &[&request.body]))
        //! }
        //!
        //! fn acme(spec: &str) -> Provider {
        //!     Provider::from_spec(spec).verify_with(verify)
        //! }
        //! # acme("kind = 7");
        //! ```
        //!
        //! A comparison with [`same`] takes the same time whatever is compared; `==` on a signature tells strangers how
        //! much of theirs was right.
        //!
        //! What is shown here is a contract. The prelude has more names, for single built-in kinds: signing for tests,
        //! JWS, public keys, forms. They may be used, and may change.

        #[doc(inline)]
        pub use hooklatch_receive::kind::prelude::{
            Authenticated, Hash, Keys, RawRequest, TimeUnit, VerifyError, check_timestamp, deciding_header,
            decode_base64, decode_hex, digest, hmac, same,
        };

        #[doc(hidden)]
        pub use hooklatch_receive::kind::prelude::*;
    }
}

pub mod prelude {
    //! Everything that a handler needs: `use hooklatch::prelude::*;`.
    //!
    //! Verification has a prelude of its own, [`hooklatch::kind::prelude`](hooklatch_receive::kind::prelude).

    #[doc(no_inline)]
    pub use serde::Deserialize;
    #[doc(no_inline)]
    pub use serde_json::json;

    #[doc(no_inline)]
    pub use crate::app::App;
    #[doc(no_inline)]
    pub use hooklatch_receive::handler::{
        Effects, Envelope, Event, Handled, HandlerError, Headers, Message, Tx, Value, ignore, refuse,
    };
    #[doc(no_inline)]
    pub use hooklatch_receive::kind::kind;
    #[doc(no_inline)]
    pub use hooklatch_receive::provider::Provider;
}
