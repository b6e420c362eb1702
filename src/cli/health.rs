//! `health`: whether a running server is ready.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

use super::shared::{client, runtime, say};

/// Succeeds when the server at `url` says that it is ready.
pub(super) fn health(url: &str, ca: Option<&Path>) -> anyhow::Result<ExitCode> {
    runtime()?.block_on(async {
        let client = client(ca)?;
        let asked = client.get(format!("{url}/readyz")).timeout(Duration::from_secs(5)).send().await;
        let status = asked.with_context(|| format!("no answer from {url}"))?.status();
        say(status);
        Ok(if status.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}
