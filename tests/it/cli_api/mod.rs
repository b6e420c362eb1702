//! The commands over the operators' API: what they ask, what they print, and how they end. `server.rs` is a server that
//! answers as the test says; `samples.rs` has an answer for every route.

mod injection;
mod keys;
mod lists;
mod reached;
mod samples;
mod server;
mod tails;
