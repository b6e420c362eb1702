//! `hooklatch taught`: the secret that a sender taught the server, shown once.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::api_client::{ApiClient, ReachArgs};
use super::shared::{complain, say};
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct TaughtArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Name of the provider whose sender taught it.
    provider: String,
}

/// `hooklatch taught PROVIDER`: it is forgotten with this.
pub(super) fn taught(args: &TaughtArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = ApiClient::new(&args.reach, file, kinds)?;
    let found = api.post(api.url(&["providers", &args.provider, "taught"], &[])?, &json!({}))?;
    if args.reach.json {
        say(found);
        return Ok(ExitCode::SUCCESS);
    }
    say(found.get("secret").and_then(Value::as_str).unwrap_or_default());
    complain("it is shown once: keep it, and take `pairing` out of the configuration");
    Ok(ExitCode::SUCCESS)
}
