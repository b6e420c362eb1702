//! Several nodes, real servers and what happens to them: a pooler between, a standby that takes over, a database that
//! falls silent, a schema that somebody else brings up to date.

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

/// Where a program is; `None`, said aloud, when it is not known and not required.
fn program(variable: &str) -> Option<String> {
    if let Ok(place) = std::env::var(variable) {
        return Some(place);
    }
    assert!(std::env::var("HOOKLATCH_TEST_REQUIRE_NODES").is_err(), "{variable} is not set");
    eprintln!("SKIPPED: set {variable}, or run ./scripts/test");
    None
}

/// True when the tests that take long are wanted; said aloud when not.
fn is_nightly() -> bool {
    let is_wanted = std::env::var("HOOKLATCH_TEST_NIGHTLY").is_ok();
    if !is_wanted {
        eprintln!("SKIPPED: set HOOKLATCH_TEST_NIGHTLY for the tests that take long");
    }
    is_wanted
}

/// What goes between the quotes of `url = "…"`, so that more keys of `[database]` follow.
fn database(url: &str, keys: &str) -> String {
    format!("{url}\"\n{keys}\n# \"")
}

/// Starts the program where it must not start, and gives back what it says. It has to end by itself.
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
        std::thread::sleep(Duration::from_millis(20));
    }
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert!(!status.success(), "it ended well");
    String::from_utf8(stderr).unwrap()
}
