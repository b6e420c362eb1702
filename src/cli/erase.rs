//! `hooklatch erase`: the bytes of single events, for people who have a right to have them deleted.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::api_client::{ApiClient, EventDecision, ReachArgs};
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct EraseArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Name of the events' provider.
    provider: String,
    /// Ids of the events, as their sender has them.
    #[arg(required = true)]
    event_ids: Vec<String>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    /// Discard their open messages, and whatever else they wait for; without it they are refused.
    #[arg(long)]
    discard: bool,
}

/// `hooklatch erase PROVIDER EVENT_ID…`: id, digest and outcome stay, so that a copy is still known.
pub(super) fn erase(args: &EraseArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = ApiClient::new(&args.reach, file, kinds)?;
    let act = if args.discard { "erase_and_discard" } else { "erase" };
    let decision = EventDecision { act, provider: &args.provider, reason: &args.reason, done: "erased" };
    api.decide_events(&decision, &args.event_ids)?;
    Ok(ExitCode::SUCCESS)
}
