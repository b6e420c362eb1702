//! `events`: shows what came in, and decides about it.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::api_client::{ApiClient, EventDecision, ReachArgs};
use super::shared::say;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Subcommand)]
enum EventsCommand {
    /// List the newest events.
    List {
        /// done, ignored, retry, failed, superseded, replayed, unreadable, conflict or dismissed.
        #[arg(long)]
        state: Option<String>,
        /// At most this many, 1 to 500.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Dispatch it once more: its messages are new ones, under new keys, and what they do is done again.
    Rerun(DecideEventArgs),
    /// Dispatch what was kept beside another event, a conflict or a replay: an event of its own from now on.
    Dispatch(DecideEventArgs),
    /// Say that nothing is to be done about a conflict.
    Dismiss(DecideEventArgs),
    /// One event, what else came under its id, and its messages.
    Show {
        /// Name of the event's provider.
        provider: String,
        /// Id of the event, as its sender has it.
        event_id: String,
    },
}

#[derive(Args)]
struct DecideEventArgs {
    /// Name of the event's provider.
    provider: String,
    /// Id of the event, as its sender has it.
    event_id: String,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
}

/// Runs `hooklatch events …`.
pub(super) fn events(args: &EventsArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = ApiClient::new(&args.reach, file, kinds)?;
    match &args.command {
        EventsCommand::List { state, limit } => {
            let found =
                api.get(&["events"], &[("state", state.as_deref()), ("limit", Some(&limit.to_string()))])?;
            api.show_list(
                &found,
                "items",
                &["received_at_ms", "provider", "event_id", "type", "state", "error"],
            );
        }
        EventsCommand::Rerun(event) => decide(&api, "rerun", event, "will be dispatched again")?,
        EventsCommand::Dispatch(event) => decide(&api, "dispatch", event, "will be dispatched")?,
        EventsCommand::Dismiss(event) => decide(&api, "dismiss", event, "dismissed")?,
        EventsCommand::Show { provider, event_id } => {
            say(format!("{:#}", api.get(&["events", provider, event_id], &[])?));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn decide(api: &ApiClient, act: &str, event: &DecideEventArgs, done: &str) -> anyhow::Result<()> {
    let decision = EventDecision { act, provider: &event.provider, reason: &event.reason, done };
    api.decide_events(&decision, std::slice::from_ref(&event.event_id))
}
