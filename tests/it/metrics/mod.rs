//! What `/metrics` exports: of the tables (`counted.rs`, and at what price: `plans.rs`), and of a running server
//! (`served.rs`).

mod counted;
mod plans;
mod served;
