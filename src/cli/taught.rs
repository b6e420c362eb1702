//! `hooklatch taught`: the secret that a sender taught the server, shown once.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::api_client::{ApiAnswer, OrderPlace};
use super::desk::Desk;
use super::output::with_times;
use super::reach::ReachArgs;
use super::shared::{complain, say};
use crate::api::TaughtView;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct TaughtArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Name of the provider whose sender taught it.
    provider: String,
    /// Idempotency key of the order; by default one is drawn, and kept until the server has answered.
    #[arg(long)]
    key: Option<String>,
}

/// `hooklatch taught PROVIDER`: it is forgotten with this.
pub(super) fn taught(args: &TaughtArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let path = ["providers", &args.provider, "taught"];
    let asked = OrderPlace { path: &path, meaning: "taught", key: args.key.as_deref(), if_match: None };
    let found: ApiAnswer<TaughtView> = desk.api.post(&asked, &json!({}))?;
    if desk.screen.is_json {
        say(with_times(found.raw));
        return Ok(ExitCode::SUCCESS);
    }
    say(&found.view.secret);
    complain("it is shown once: keep it, and take `pairing` out of the configuration");
    Ok(ExitCode::SUCCESS)
}
