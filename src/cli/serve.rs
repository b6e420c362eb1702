//! `serve`, `migrate` and `health`: run a server, migrate its schema, check that it is ready.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use reqwest::Client;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::shared::{beside_a_server, block_boxed, block_on, client, complain, runtime, say};
use super::sign;
use crate::app::{self, App};
use hooklatch_core::config::{Config, DatabaseConfig};
use hooklatch_core::logging;
use hooklatch_core::net::client_builder;
use hooklatch_core::tls::pinned_client;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools, loaded, reachable, unusable};
use hooklatch_operator::setup;
use hooklatch_operator::setup::Opened;
use hooklatch_store::{ProgramMigrations, SchemaState};

/// Listens for SIGHUP from the first moment on, so that the signal never kills the process.
pub(super) struct Listening {
    runtime: Runtime,
    hangup: Signal,
}

/// Listens for SIGHUP.
pub(super) fn listen() -> anyhow::Result<Listening> {
    let runtime = runtime()?;
    let hangup = {
        let _inside = runtime.enter();
        signal(SignalKind::hangup()).context("could not listen for SIGHUP")?
    };
    Ok(Listening { runtime, hangup })
}

/// Runs until SIGTERM or SIGINT.
pub(super) fn serve(
    Listening { runtime, hangup }: Listening,
    file: Option<&Path>,
    is_dev: bool,
    kinds: Kinds,
    more: impl FnOnce(App) -> App,
) -> anyhow::Result<ExitCode> {
    let loaded = loaded(file, is_dev, &kinds)?;
    logging::install(&loaded.config.log, hooklatch_outbox::silent_log_targets())?;
    let banner = if is_dev { Some(banner(&loaded.config, &kinds)?) } else { None };
    if loaded.config.providers.is_empty() {
        complain("hooklatch: no [providers.NAME] is configured, so every request will be answered 404");
    }
    let mut app = more(App::of_loaded(loaded, kinds)).read_from(file, is_dev).reload_on(hangup);
    if is_dev {
        app = app.echo();
    }
    let work = async {
        if let Some(text) = banner {
            say(text);
        }
        app.run().await
    };
    let done = block_boxed(&runtime, Box::pin(work));
    runtime.shutdown_background();
    done?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the first steps: the URL to send to, a request that works, the URL of the console.
fn banner(config: &Config, kinds: &Kinds) -> anyhow::Result<String> {
    let base = format!("http://{}", config.server.listen);
    let admin = format!("http://{}", config.admin.listen);
    let curl = sign::dev_curl(kinds, "stripe", &format!("{base}/webhooks/stripe"))?;
    Ok(format!(
        "\nHooklatch is about to listen, with published secrets, for every kind: {base}/webhooks/KIND\n\n\
         A signed event (good for 5 minutes; `hooklatch sign stripe` makes another):\n\n{curl}\n\n\
         Look at it all:        {admin}/\n\
         The calls it led to:   curl {admin}/dev/echo\n\
         Make the next 2 fail:  curl -d '{{\"status\":500,\"times\":2}}' {admin}/dev/echo-fail\n\
         Is it ready?           curl {admin}/readyz\n\
         What does it count?    curl {admin}/metrics\n"
    ))
}

/// Applies missing migrations, of Hooklatch and then of the program, and prints them.
pub(super) fn migrate(
    file: Option<&Path>,
    kinds: Kinds,
    more: impl FnOnce(App) -> App,
) -> anyhow::Result<ExitCode> {
    let app = more(App::of_loaded(loaded(file, false, &kinds)?, kinds));
    // Before anything is applied: the start would always refuse these names.
    let mistakes = ProgramMigrations::mistakes(app.migrations());
    anyhow::ensure!(mistakes.is_empty(), "{}", mistakes.join("\n"));
    block_on(async {
        let config = app.config();
        // This is the command that creates a database, whatever `serve` may do.
        let database = DatabaseConfig { create: true, ..config.database.clone() };
        let Opened { store, applied, schema } =
            setup::store(&database, &config.encryption, true).await.map_err(|error| {
                let instead =
                    "A server brings the schema up to date when it starts, unless database.migrate is false.";
                beside_a_server(error, instead)
            })?;
        // An older program than the schema's has nothing to apply, which does not mean that it would start.
        anyhow::ensure!(schema.is_usable(), "schema of the database is {schema}");
        let of_program = app::migrate(&store, app.migrations()).await;
        store.close().await;
        let of_program = of_program?;
        if applied.is_empty() && of_program.is_empty() {
            match schema {
                SchemaState::Current => say("the schema is up to date"),
                newer => say(format!("nothing to apply: the schema is {newer}")),
            }
        }
        if !applied.is_empty() {
            say(format!("applied {applied:?}"));
        }
        if !of_program.is_empty() {
            say(format!("applied {}", of_program.join(", ")));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Longest wait for the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest answer that is parsed.
const ANSWER_BYTES_MAX: u64 = 4_096;
/// Used when the configuration names no address.
const DEFAULT_URL: &str = "http://127.0.0.1:8081";

/// Succeeds when the server at `url` is ready.
pub(super) fn health(url: &str, ca: Option<&Path>) -> anyhow::Result<ExitCode> {
    print_health(&client(ca)?, url)
}

/// Succeeds when the server of this configuration, on this machine, is ready. It is not reached by the name in its
/// certificate, so exactly that certificate is trusted.
///
/// A mistake in the file does not make a server that runs unhealthy: then the default address is asked.
pub(super) fn own_health(file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = match load_for_tools(&Settings::of_process(file), kinds) {
        Ok(config) => config,
        Err(problems) => {
            complain(format!("hooklatch: asking {DEFAULT_URL}: {:#}", unusable(&problems)));
            return print_health(&client(None)?, DEFAULT_URL);
        }
    };
    let address = reachable(config.admin.listen);
    let Some(tls) = &config.admin.tls else {
        return print_health(&client(None)?, &format!("http://{address}"));
    };
    anyhow::ensure!(
        !tls.is_client_needed,
        "admin.tls serves those alone who show a certificate, and `health` has none: look at the process from outside, or leave client_needed out (operators show tokens)"
    );
    let pinned = pinned_client(&tls.cert_file)
        .map_err(|mistake| anyhow::anyhow!("admin.tls.{}: {}", mistake.key, mistake.why))?;
    print_health(&client_builder().tls_backend_preconfigured(pinned).build()?, &format!("https://{address}"))
}

fn print_health(client: &Client, url: &str) -> anyhow::Result<ExitCode> {
    block_on(async {
        let response = client.get(format!("{url}/readyz")).timeout(TIMEOUT).send().await;
        let answer = response.with_context(|| format!("no answer from {url}"))?;
        let status = answer.status();
        // The parts that are away: another server's answer may be a page of any length, where the status is enough.
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
