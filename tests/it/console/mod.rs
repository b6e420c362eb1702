//! The console as a browser sees it, without one: `browser.rs` is a browser without a window. Pages, forms and who may do
//! what. `tests/browser/` has a real one.

mod acts;
mod browser;
mod bulk;
mod events;
mod explain;
mod form;
mod hostile_acts;
mod hostile_ledger;
mod kept;
mod ledger;
mod measured;
mod proxied;
mod roles;
mod searched;
mod signing_in;
mod staged;
mod views;

pub use browser::Browser;
