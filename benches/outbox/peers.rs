//! Another engine doing the same calls: graphile-worker, installed by `scripts/peers`.

use std::path::Path;
use std::process::Command;

use super::tables::{BODY, Tables};
use super::{CONCURRENCY_N, MESSAGES_N};

/// Calls a second of graphile-worker, with its defaults or tuned for throughput; `None` when it is not installed.
pub(super) async fn graphile_worker(server: &str, url: &str, is_tuned: bool) -> Option<f64> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/peers");
    if !folder.join("node_modules").exists() {
        return None;
    }
    let tables = Tables::new(Some(server)).await;
    let (database_server, name) = tables.database.clone()?;
    let database = format!("{}/{name}", database_server.rsplit_once('/')?.0);
    let url = url.to_owned();
    // The stub runs on this runtime: waiting for the other process must not stop it.
    let run = tokio::task::spawn_blocking(move || {
        let mut command = Command::new("node");
        command.arg("graphile_worker.mjs").current_dir(folder);
        command.envs([("DATABASE", database), ("DESTINATION", url), ("BODY", BODY.to_owned())]);
        command.env("MESSAGES_N", MESSAGES_N.to_string()).env("CONCURRENCY_N", CONCURRENCY_N.to_string());
        if is_tuned {
            command.env("TUNED", "1");
        }
        command.output()
    });
    let output = run.await.ok()?.ok()?;
    tables.close().await;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}
