//! Hooklatch: a webhook receiver that a team can trust with money.
//!
//! It verifies a provider's signature, latches the event exactly once, and makes every call that follows
//! from it happen exactly once in effect. This page is a guided tour; `ARCHITECTURE.md` is the map.
//!
//! 1. [`provider`] and [`spec`]: how one kind of sender signs and shapes its webhooks, and what we do about
//!    its events ([`handler`]).
//! 2. [`verify`] and [`read`]: pure functions from bytes to believed events.
//! 3. `receive` and `admit`: one transaction for everything that waits, and the answer it allows.
//! 4. [`store`]: the only SQL, on SQLite and PostgreSQL.
//! 5. `outbox`: leases, calls, settlements.
//! 6. `app`, `http`, `cli`: the process around it.
//!
//! A user's own `main.rs`:
//! ```no_run
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     hooklatch::App::load(None, vec![/* acme::provider() */])?.run().await
//! }
//! ```
//! or, to have every command of ours as well, `hooklatch::cli::main(vec![acme::provider()])`.

// A provider folder is the same text inside this crate and inside a user's.

mod admit;
mod app;
mod backoff;
pub mod bench;
pub mod cli;
pub mod config;
mod database_url;
mod fetch;
pub mod handler;
mod http;
mod json;
mod kinds;
#[doc(hidden)]
pub mod load;
mod logging;
#[doc(hidden)]
pub mod mistakes;
mod net;
pub mod outbox;
pub mod pairs;
mod plain;
pub mod provider;
#[path = "../providers/mod.rs"]
pub mod providers;
pub mod read;
mod receive;
mod retention;
mod setup;
pub mod spec;
pub mod stop;
pub mod store;
mod template;
pub mod types;
pub mod vectors;
pub mod verify;

pub use app::{App, Running};

/// What a kind's `mod.rs` needs, and nothing else.
pub mod prelude {
    pub use serde::Deserialize;
    pub use serde_json::json;

    pub use crate::handler::{Effects, Event, Handled, HandlerError, Message, ignore, refuse};
    pub use crate::provider::Provider;
    pub use crate::read::{
        Json, json_elements, json_is_missing, json_raw, json_text, json_with, xml_as_json,
    };
    pub use crate::spec::TimeUnit;
    pub use crate::store::{Tx, Value};
    pub use crate::verify::{
        Believed, Certificate, Form, Hash, Jws, Keys, PublicKey, PublicScheme, RawRequest, Reply, SignAt,
        SignError, Signed, VerifyError, Vouched, base64_text, check_timestamp, compact_json, crc32,
        deciding_header, decode_base64, decode_base64_long, decode_base64url, decode_hex, digest, form_with,
        hex_text, hmac, jws_chained, jws_detached, jws_hs256, jws_signed, open_aes_128_cbc, open_aes_gcm,
        path_and_query, php_serialized, query_value, rfc3339_text, same, seal_aes_128_cbc, seal_aes_gcm,
        sorted_json, standard_webhooks, vouched,
    };
}
