//! The console, as browsers ask it: `browser.rs` is one without a window.

mod browser;
mod signing_in;

pub use browser::Browser;
