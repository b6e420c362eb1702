//! `serve` and `migrate`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::shared::{beside_a_server, block_on, complain, runtime, say};
use super::sign;
use crate::app::{self, App};
use crate::config::{Config, DatabaseConfig};
use crate::load::{Kinds, loaded};
use crate::setup::Opened;
use crate::store::{ProgramMigrations, SchemaState};
use crate::{logging, setup};

/// What listens for SIGHUP from the first moment on, so that it kills at none.
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
    logging::install(&loaded.config.log, crate::outbox::silent_log_targets())?;
    let banner = if is_dev { Some(banner(&loaded.config, &kinds)?) } else { None };
    if loaded.config.providers.is_empty() {
        complain("hooklatch: no [providers.NAME] is configured, so every request will be answered 404");
    }
    let mut app = more(App::of_loaded(loaded, kinds)).read_from(file, is_dev).hearing(hangup);
    if is_dev {
        app = app.echo();
    }
    let done = runtime.block_on(async {
        if let Some(text) = banner {
            say(text);
        }
        app.run().await
    });
    runtime.shutdown_background();
    done?;
    Ok(ExitCode::SUCCESS)
}

/// Says what a newcomer needs: where to send, one request that works, where to look.
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

/// Applies what is missing, of our schema and then of the program's own, and says what it was.
pub(super) fn migrate(
    file: Option<&Path>,
    kinds: Kinds,
    more: impl FnOnce(App) -> App,
) -> anyhow::Result<ExitCode> {
    let app = more(App::of_loaded(loaded(file, false, &kinds)?, kinds));
    // Before anything is applied: the start would refuse these names for ever after.
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
