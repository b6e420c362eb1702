//! `provider.toml`: how to verify and read one kind of sender, as data.
//!
//! There is no language of conditions or regular expressions: what this cannot express is a named scheme in `verify/`
//! or code in the kind's `mod.rs`. Every key is documented here and shown in `providers/README.md`. In reading order:
//!
//! 1. `provider_toml`: the file as a whole, [`Spec`].
//! 2. A file for each table: `signature`, `event` with `identity` and `source`, `answer`, `handshake`, `setting`,
//!    `fetch`, `whose` with `accept`, and `resend` for a key with a form of its own.
//! 3. Values with a form of their own: `layout`, `pattern`, `chars`, `hosts`.
//! 4. Parsing: `parse` does all of it; `form` checks types and keys, `misfits` and `check` the contradictions between
//!    tables.
//! 5. `words` describes a spec in sentences.

mod answer;
mod chars;
mod check;
mod event;
mod fetch;
mod form;
mod handshake;
mod hosts;
mod identity;
mod layout;
mod misfits;
mod parse;
mod pattern;
mod provider_toml;
mod resend;
mod setting;
mod signature;
mod source;
#[cfg(test)]
mod tests;
mod whose;
pub mod words;

pub use answer::AnswerSpec;
pub use chars::Chars;
pub(crate) use event::SEARCH_N_MAX;
pub use event::{BodyFormat, EventSpec};
pub use fetch::{ConfirmSpec, FetchForm, FetchSpec};
pub use handshake::{HandshakeSpec, MacSpec, TokenSpec};
pub use hosts::is_host_of;
pub use identity::{Identity, IdentitySpec};
pub use layout::{Layout, LayoutSlot};
pub use parse::SpecError;
pub use pattern::{Pattern, Piece};
pub use provider_toml::{Confidence, EventMethod, EventTypes, Spec};
pub use resend::Resend;
pub use setting::{DevKey, SettingForm, SettingSpec};
pub use signature::{Encoding, Scheme, SecretFormat, SignatureSpec, TimeUnit, Weakness};
pub use source::{Source, Sources};
pub use whose::{AcceptSpec, WhoseSpec};
