//! The console as a browser sees it, without one: pages, forms and who may do what. `tests/browser/` has a real one;
//! `browser.rs` asks as one would.

mod browser;
mod measured;
mod signing_in;

pub use browser::Browser;
