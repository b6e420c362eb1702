//! Loads a receiver with requests and reports what it did: the engine of `hooklatch-bench` and of the benches of
//! `hooklatch`. It is for developers; nothing of it is in the product.
//!
//! Everything runs on one thread, so that the machine is left to the receiver. In reading order: `load.rs` drives
//! (start at [`run`]); `mix.rs` decides what is sent (fresh, a copy, a forgery) and `signed.rs` writes it; `pace.rs`
//! says when, `connection.rs` sends; `tally.rs` counts, `cpu.rs` reads CPU time, of the PostgreSQL that `postmaster.rs`
//! finds as well; `report.rs`, `chart.rs` and `spread.rs` print. `target.rs` decides who may be loaded, and `scratch.rs`
//! starts a receiver for one load. The command is in `bin/hooklatch-bench/`.
//!
//! It speaks HTTP/1.1 on plain TCP alone, and has no access to databases.

mod chart;
mod connection;
mod cpu;
mod load;
mod mix;
mod pace;
mod postmaster;
mod report;
mod scratch;
mod signed;
mod spread;
mod tally;
mod target;

pub use chart::{Bar, Chart, ChartLine, svg};
pub use cpu::{CpuUs, WatchedProcesses, listener_of};
pub use load::{Load, LoadError, LoadPace, Until, run};
pub use mix::{Maker, Mix, Sort};
pub use postmaster::postmaster;
pub use report::Report;
pub use scratch::Scratch;
pub use signed::SignedMaker;
pub use spread::Spread;
pub use tally::{Measured, SecondFigures};
pub use target::{LoadTarget, TargetError};
