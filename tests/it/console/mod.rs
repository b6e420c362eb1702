//! The console as a browser sees it, without one: `browser.rs` is a browser without a window. Pages, forms and who may do
//! what. `tests/browser/` has a real one.

mod browser;
mod explain;
mod measured;
mod signing_in;
mod what_if;

pub use browser::Browser;
