//! Loads a receiver with requests and says what came of it: the engine of `hooklatch bench` and of this package's own
//! benches. It knows HTTP/1.1 on plain TCP and nothing of databases; who may be loaded is the caller's to decide
//! (`target.rs`).
//!
//! Everything runs on one thread, so that the machine is left to whoever is measured. `load.rs` drives, `mix.rs` decides
//! what is sent (fresh, a copy, a forgery), `tally.rs` counts, `report.rs` and `chart.rs` tell people. Start at [`run`].

mod answer;
mod chart;
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
