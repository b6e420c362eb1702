//! The configured providers: what to register, what came last, which secrets match.
//!
//! `routes.rs` asks; `list.rs` draws all of them and `one.rs` one, with `secrets.rs` for what its secrets show.

mod list;
mod one;
mod routes;
mod secrets;

pub(super) use routes::routes;
