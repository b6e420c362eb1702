//! The console: pages for people, served at `/` of the operator listener.
//!
//! It is a client of the contract (`api`), as the commands are: every page asks `/v1` inside the process, as the person
//! who looks, and shows what it hears. So roles, scopes, keys, versions and bounds are those of the API, and nothing
//! here holds the store. In reading order:
//!
//! 1. `state.rs` is what it needs of the app, `visit.rs` a person's request: who asks, and the way to `/v1`
//!    (`contract.rs`); `entrance.rs` says who that is, by the cookie of a session; `trouble.rs` is what went wrong, as a page.
//! 2. `parts/` draws what several pages have: the frame, chips, times, tables, forms. `assets.rs` has the style and the
//!    one script.
//! 3. `pages/` has a file or a folder for each page, with its routes.

mod assets;
mod contract;
mod entrance;
mod pages;
mod parts;
mod router;
mod state;
mod trouble;
mod visit;

#[cfg(test)]
pub(crate) use parts::indented;
pub(crate) use router::router;
pub(crate) use state::{ConsoleState, SignAgain, SignedAgain, SignedCopy};
