//! `serve` and `migrate`.

use std::path::Path;
use std::process::ExitCode;

use super::shared::{complain, runtime, say};
use super::sign;
use crate::config::Config;
use crate::setup::{Kinds, Opened, loaded};
use crate::{App, logging, setup};

/// Runs until SIGTERM or SIGINT.
pub(super) fn serve(file: Option<&Path>, is_dev: bool, kinds: Kinds) -> anyhow::Result<ExitCode> {
    let config = loaded(file, is_dev, &kinds)?;
    logging::install(&config.log)?;
    let banner = if is_dev { Some(banner(&config, &kinds)?) } else { None };
    if config.providers.is_empty() {
        complain("hooklatch: no [providers.NAME] is configured, so every request will be answered 404");
    }
    let mut app = kinds.all.into_iter().fold(App::new(config), App::provider);
    if is_dev {
        app = app.echo();
    }
    runtime()?.block_on(async {
        if let Some(text) = banner {
            say(text);
        }
        app.run().await
    })?;
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
         The calls it led to:   curl {admin}/dev/echo\n\
         Make the next 2 fail:  curl -d '{{\"status\":500,\"times\":2}}' {admin}/dev/echo-fail\n\
         Is it ready?           curl {admin}/readyz\n\
         What does it count?    curl {admin}/metrics\n"
    ))
}

/// Applies what is missing and says what it was.
pub(super) fn migrate(file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?;
    runtime()?.block_on(async {
        let Opened { store, applied, .. } = setup::store(&config.database, true).await?;
        store.close().await;
        match applied.as_slice() {
            [] => say("the schema is up to date"),
            versions => say(format!("applied {versions:?}")),
        }
        Ok(ExitCode::SUCCESS)
    })
}
