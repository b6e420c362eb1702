//! HTTP destinations: one request per attempt, and what its end means.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used. What fails before
//! the first byte has left was surely not sent; everything later is unknown. Addresses and header values are secrets:
//! neither is ever part of an error's words.
//!
//! `kind.rs` says what HTTP is as a kind of destination, `parse.rs` reads its keys. `destination.rs` makes a call: to an
//! address (`address.rs`), with headers (`headers.rs`) and signatures (`sign.rs`, `signed.rs`, `values.rs`), over TLS
//! (`tls.rs`), by one of two clients (`client.rs`: `lean/`, ours, or `reqwest`, which knows proxies and HTTP/2).
//! `call.rs` is a call and its answer, `answer_body.rs` what the body of an answer is good for, `question.rs`
//! how a destination is asked whether an earlier attempt took effect. `bare.rs` is for benches.

mod address;
mod answer_body;
mod bare;
mod call;
mod client;
mod destination;
mod headers;
mod kind;
mod lean;
mod parse;
mod question;
mod sign;
mod signed;
mod tls;
mod values;

pub use bare::BareCalls;
pub use client::{http_client, http_client_believing};
pub(crate) use destination::HttpDestination;
pub(super) use kind::Http;
