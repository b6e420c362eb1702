//! The manager of services that started this process, such as systemd: the sockets that it opened for us, and what it
//! is told about us.
//!
//! Both are agreed on in variables of the environment, so that nothing happens here where nobody manages us. `sockets.rs`
//! says which socket is whose; `manager.rs` tells. When there is something to be told is for `app` to know.

mod manager;
mod sockets;

pub use manager::Manager;
pub use sockets::Sockets;
