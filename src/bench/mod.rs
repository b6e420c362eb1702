//! Loads a receiver with requests and says what came of it: the engine of `hooklatch bench` and of this package's own
//! benches.
//!
//! Everything runs on one thread, so that the machine is left to the receiver. In reading order: `load.rs` drives
//! (start at [`run`]); `mix.rs` decides what is sent (fresh, a copy, a forgery) and `signed.rs` writes it; `pace.rs`
//! says when, `connection.rs` sends; `tally.rs` counts, `cpu.rs` reads CPU time; `report.rs`, `chart.rs` and
//! `spread.rs` tell people. `target.rs` says who may be loaded, and `scratch.rs` starts a receiver for one load.
//!
//! It speaks HTTP/1.1 on plain TCP alone, and knows nothing of databases.

mod chart;
mod connection;
mod cpu;
mod load;
mod mix;
mod pace;
mod report;
mod scratch;
mod signed;
mod spread;
mod tally;
mod target;

pub use chart::{Bar, Chart, ChartLine, svg};
pub use cpu::{CpuUs, WatchedProcesses, listener_of};
pub use load::{Load, LoadError, LoadPace, Until, run};
pub(crate) use mix::spoil;
pub use mix::{Maker, Mix, Sort};
pub use report::Report;
pub use scratch::Scratch;
pub use signed::SignedMaker;
pub use spread::Spread;
pub use tally::{Measured, SecondFigures};
pub use target::{LoadTarget, TargetError};
