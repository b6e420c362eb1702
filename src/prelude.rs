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
