//! The built-in kinds by their names.

use crate::provider::{KindError, Provider};
use crate::providers::KINDS;
use hooklatch_core::mistakes::nearest;

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
