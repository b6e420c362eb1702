//! Several nodes, real servers and what happens to them: a pooler between, a standby that takes over, a database that
//! falls silent, a schema that another program migrates.

mod failover;
mod judged;
mod load;
mod patroni;
mod point_in_time;
mod pooler;
mod proxy;
mod schema;
mod server;
mod sessions;
mod silence;

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::process::Server;

/// What goes between the quotes of `url = "…"`, so that more keys of `[database]` follow.
fn database(url: &str, keys: &str) -> String {
    format!("{url}\"\n{keys}\n# \"")
}

/// Starts the program where it must not start, and returns its error output. It has to end by itself.
fn refused(url: &str, keys: &str) -> String {
    let server = Server::prepare(&database(url, keys), "");
    let mut child = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .args(["serve", "--config"])
        .arg(server.config())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed() > Duration::from_secs(30) {
            child.kill().unwrap();
            let Output { stderr, .. } = child.wait_with_output().unwrap();
            panic!("it did not end: {}", String::from_utf8_lossy(&stderr));
        }
        // The pause between two looks, within the bound above.
        std::thread::sleep(Duration::from_millis(20));
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert!(!status.success(), "it ended well");
    String::from_utf8(stderr).unwrap()
}
