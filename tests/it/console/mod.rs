//! The console as a browser sees it, without one: `browser.rs` is a browser without a window, `form.rs` a form that somebody
//! fills in. Pages, forms and who may do what. `tests/browser/` has a real one.

mod acts;
mod browser;
mod bulk;
mod form;
mod hostile_acts;
mod kept;
mod measured;
mod proxied;
mod roles;
mod signing_in;
mod views;

pub use browser::Browser;
