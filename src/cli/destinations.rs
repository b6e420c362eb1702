//! `destinations`: pauses and resumes where messages go.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api_client::{ApiClient, ReachArgs};
use super::shared::say;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct DestinationsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: DestinationsCommand,
}

#[derive(Subcommand)]
enum DestinationsCommand {
    /// List the destinations that are paused.
    Paused,
    /// Take nothing for it, on any node, until it is resumed; calls under way end as they do.
    Pause(SwitchArgs),
    /// Resume a paused destination.
    Resume(SwitchArgs),
}

#[derive(Args)]
struct SwitchArgs {
    /// Name of the destination.
    name: String,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
}

/// Runs `hooklatch destinations …`.
pub(super) fn destinations(
    args: &DestinationsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let api = ApiClient::new(&args.reach, file, kinds)?;
    let (act, switch) = match &args.command {
        DestinationsCommand::Paused => {
            let found = api.get(&["destinations"], &[])?;
            api.show_list(
                &json!({ "paused": paused(&found) }),
                "paused",
                &["destination", "paused_at_ms", "actor", "reason"],
            );
            return Ok(ExitCode::SUCCESS);
        }
        DestinationsCommand::Pause(switch) => ("pause", switch),
        DestinationsCommand::Resume(switch) => ("resume", switch),
    };
    let url = api.url(&["destinations", &switch.name, "decide"], &[])?;
    api.post(url, &json!({ "act": act, "reason": switch.reason }))?;
    say(format!("{}: {act}d", switch.name));
    Ok(ExitCode::SUCCESS)
}

/// The pauses among the destinations, each with the name of its destination.
fn paused(found: &Value) -> Vec<Value> {
    let all = found.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let pause = |one: &Value| {
        let mut pause = one.get("pause")?.as_object()?.clone();
        pause.insert("destination".to_owned(), one.get("name")?.clone());
        Some(Value::Object(pause))
    };
    all.iter().filter_map(pause).collect()
}
