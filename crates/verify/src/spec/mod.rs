//! `provider.toml`: how to verify and read one kind of sender, as data.
//!
//! There is no language of conditions or regular expressions: what this cannot express is a named scheme in `verify/`
//! or code in the kind's `mod.rs`. Every key is documented here and shown in `providers/README.md`. In reading order:
//!
//! 1. `provider_toml`: the file as a whole, [`Spec`].
//! 2. A file for each table: `signature`, `event`, `handshake`, `setting`, `fetch`.
//! 3. Values with a form of their own: `pattern`.
//! 4. Parsing: `parse` does all of it; `misfits` checks the contradictions between tables.
//! 5. `words` describes a spec in sentences.

mod event;
mod fetch;
mod handshake;
mod misfits;
mod parse;
mod pattern;
mod provider_toml;
mod setting;
mod signature;
#[cfg(test)]
mod tests;
pub mod words;

pub(crate) use event::SEARCH_N_MAX;
pub use event::{BodyFormat, EventSpec, Identity, IdentitySpec, Source, Sources};
pub use fetch::{ConfirmSpec, FetchForm, FetchSpec, is_host_of};
pub use handshake::{Chars, HandshakeSpec, MacSpec, TokenSpec};
pub use parse::SpecError;
pub use pattern::{Layout, LayoutSlot, Pattern, Piece};
pub use provider_toml::{AnswerSpec, Confidence, EventMethod, EventTypes, Resend, Spec};
pub use setting::{AcceptSpec, DevKey, SettingForm, SettingSpec, WhoseSpec};
pub use signature::{Encoding, Scheme, SecretFormat, SignatureSpec, TimeUnit, Weakness};
