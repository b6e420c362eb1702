//! Tests of your handlers: an event as a handler receives it, and an app without network.
//!
//! A plain handler is a function: give it an [`event`] and look at its effects.
//!
//! ```
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
//! let event = hooklatch::testing::event::<Invoice>(&kind("stripe"), "invoice.paid")?;
//! let effects = invoice_paid(event)?;
//! assert_eq!(effects.messages()[0].destination, "receipts");
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! A transactional handler needs a database and a request with a valid signature: [`Trial`] has both.
//!
//! ```
//! # use hooklatch::prelude::*;
//! # #[derive(Deserialize)]
//! # struct Invoice { id: String, amount_paid: i64 }
//! async fn enter(tx: &mut Tx, event: Event<Invoice>) -> Handled {
//!     let values = [event.payload.id.as_str().into(), event.payload.amount_paid.into()];
//!     tx.execute("INSERT INTO ledger (invoice, amount) VALUES ($1, $2)", &values).await.map_err(anyhow::Error::from)?;
//!     Ok(Effects::new().call("receipts", json!({ "invoice": event.payload.id })))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! # let folder = std::env::temp_dir().join(format!("hooklatch-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! let ledger = [("0001_ledger", "CREATE TABLE ledger (invoice TEXT PRIMARY KEY, amount BIGINT NOT NULL)")];
//! let kinds = vec![kind("stripe").on_tx("invoice.paid", enter)];
//! let trial = hooklatch::testing::Trial::start(&folder, kinds, &["receipts"], |app| app.migrate("ledger", ledger)).await?;
//! assert_eq!(trial.send("stripe", "invoice.paid", "evt_1").await?, "accepted");
//! assert_eq!(trial.send("stripe", "invoice.paid", "evt_1").await?, "duplicate");
//! assert_eq!(trial.fetch("SELECT invoice FROM ledger", &[]).await?.len(), 1);
//! assert_eq!(trial.messages().await?, ["receipts"]);
//! trial.stop().await;
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok(())
//! # }
//! ```

use anyhow::Context;
use serde::de::DeserializeOwned;

use hooklatch_core::types::Clock;
use hooklatch_receive::handler::{Event, RawEvent};
use hooklatch_receive::provider::{Kind, Provider, filled_sample};
use hooklatch_verify::{DevKeys, SignAt};

#[doc(hidden)]
pub use crate::app::AppExt;
pub use crate::app::Trial;

/// The kind's sample of this type as a handler receives it: signed, verified and parsed as a request would be. Change
/// its fields for your test, such as `event.envelope` to `Envelope::of(json!({ "livemode": true }))`. Not for kinds
/// whose sender signs with a private key.
pub fn event<T: DeserializeOwned>(kind: &Provider, event_type: &str) -> anyhow::Result<Event<T>> {
    let provider = kind.dev(&DevKeys::default()).map_err(anyhow::Error::msg)?;
    let now_s = Clock::system().now_ms() / 1_000;
    let body = filled_sample(kind.sample(event_type)?, "1", now_s);
    let at = SignAt {
        now_s,
        url: provider.url().to_owned(),
        id: "1".to_owned(),
        event_type: event_type.to_owned(),
    };
    let verified = provider.verify(provider.sign(body.as_bytes(), &at)?.request(&at)?)?;
    let event = provider.read(&verified).into_iter().next().context("the sample has no event in it")?;
    let content = provider.content(&event);
    let raw = RawEvent {
        provider: event.key.provider,
        event_id: event.key.event_id,
        event_type: event.event_type,
        payload: content.payload,
        envelope: content.envelope,
        headers: content.headers,
        received_at_ms: event.received_at_ms,
        attempt_n: 1,
        ahead: hooklatch_receive::handler::ParsedAhead::default(),
    };
    Ok(raw.typed()?)
}
