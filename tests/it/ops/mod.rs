//! The files of `ops/`: alert rules with their tests and runbooks (`rules.rs`; `texts.rs` reads
//! them), the dashboard (`dashboard.rs`), the commands of the runbooks, run (`runbooks.rs`), and every alert that
//! can be made to fire by breaking what it watches, in a real Prometheus (`fires/`). `expressions.rs` reads `PromQL` as far as
//! these tests need it, `prometheus.rs` runs the program.

mod dashboard;
mod expressions;
mod fires;
pub(crate) mod prometheus;
mod rules;
mod runbooks;
mod silence;
mod texts;
