//! `health`: whether a running server is ready.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use reqwest::Client;

use super::shared::{block_on, client, complain, say};
use crate::load::{Kinds, Settings, load_for_tools, reachable, unusable};
use crate::net::client_builder;
use crate::tls::pinned_client;

/// Longest wait for the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer that is looked into.
const ANSWER_BYTES_MAX: u64 = 4_096;
/// Asked when the configuration does not say where.
const DEFAULT_URL: &str = "http://127.0.0.1:8081";

/// Succeeds when the server at `url` says that it is ready.
pub(super) fn health(url: &str, ca: Option<&Path>) -> anyhow::Result<ExitCode> {
    ask(&client(ca)?, url)
}

/// Succeeds when the server that this configuration makes, on this machine, says that it is ready. It is not called by
/// the name in its certificate here, so that certificate itself is what is believed.
///
/// A server that runs well is not ill because somebody made a mistake in its file since: then it is asked at the address
/// that it has by default.
pub(super) fn own_health(file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = match load_for_tools(&Settings::of_process(file), kinds) {
        Ok(config) => config,
        Err(problems) => {
            complain(format!("hooklatch: asking {DEFAULT_URL}: {:#}", unusable(&problems)));
            return ask(&client(None)?, DEFAULT_URL);
        }
    };
    let address = reachable(config.admin.listen);
    let Some(tls) = &config.admin.tls else { return ask(&client(None)?, &format!("http://{address}")) };
    anyhow::ensure!(
        !tls.is_client_needed,
        "admin.tls serves those alone who show a certificate, and `health` has none: look at the process from outside, or leave client_needed out (operators show tokens)"
    );
    let pinned = pinned_client(&tls.cert_file)
        .map_err(|mistake| anyhow::anyhow!("admin.tls.{}: {}", mistake.key, mistake.why))?;
    ask(&client_builder().tls_backend_preconfigured(pinned).build()?, &format!("https://{address}"))
}

fn ask(client: &Client, url: &str) -> anyhow::Result<ExitCode> {
    block_on(async {
        let asked = client.get(format!("{url}/readyz")).timeout(TIMEOUT).send().await;
        let answer = asked.with_context(|| format!("no answer from {url}"))?;
        let status = answer.status();
        // Which part says no: another server's answer may be a page of any length, of which the status says enough.
        let is_short = answer.content_length().is_some_and(|bytes_n| bytes_n <= ANSWER_BYTES_MAX);
        let parts = if is_short { answer.text().await.unwrap_or_default() } else { String::new() };
        say(in_words(&status.to_string(), &parts));
        Ok(if status.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// The status, and the parts of the server that are away.
fn in_words(status: &str, parts: &str) -> String {
    let parts: BTreeMap<String, serde_json::Value> = serde_json::from_str(parts).unwrap_or_default();
    let is_name =
        |name: &str| name.len() <= 32 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let away =
        parts.iter().filter(|(name, word)| *word == "away" && is_name(name)).map(|(name, _)| name.as_str());
    let away: Vec<&str> = away.collect();
    if away.is_empty() { status.to_owned() } else { format!("{status}: not there: {}", away.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_which_part_is_away() {
        let not = "503 Service Unavailable";
        for (status, parts, wanted) in [
            (
                not,
                r#"{"database":"away","outbox":"away","ready":false,"schema":"ok"}"#,
                "503 Service Unavailable: not there: database, outbox",
            ),
            ("200 OK", r#"{"database":"ok","ready":true}"#, "200 OK"),
            (not, "<html>", "503 Service Unavailable"),
            (not, r#"{"\u001b[31m":"away"}"#, "503 Service Unavailable"),
        ] {
            assert_eq!(in_words(status, parts), wanted, "{parts}");
        }
    }
}
