//! Kinds: how one sort of sender signs and shapes its requests. The function [`kind`](crate::kind()) gives a built-in
//! one.
//!
//! A kind of your own begins with [`Provider::from_spec`](crate::provider::Provider::from_spec) and the text of a
//! `provider.toml`. What no spec can say is code beside it, written with [`prelude`]: `verify_with`, `sign_with`,
//! `handshake_with`, `open_with`, `answer_with`.

pub mod prelude;
