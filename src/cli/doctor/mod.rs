//! `hooklatch doctor`: asks the running server, looks at the receiver from outside, and prints what was found.
//!
//! `command.rs` decides whom to ask, `outside.rs` sends probes through `server.public_url`, `alone.rs` looks at
//! configuration and database where no server runs, `told.rs` prints. What findings mean is decided in `doctor/`.

mod alone;
mod command;
mod outside;
mod told;

pub(super) use command::{DoctorArgs, doctor};
