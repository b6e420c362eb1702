//! The manager of services that started this process, such as systemd: the sockets that it opened for us, and the
//! notifications that it gets.
//!
//! Both are agreed on in variables of the environment, so that nothing happens here without a manager. `sockets.rs`
//! assigns the sockets; `manager.rs` sends notifications. `app` decides when.

mod manager;
mod sockets;

pub use manager::Manager;
pub use sockets::Sockets;
