//! `hooklatch erase`: the bytes of single events, for whoever has a right to have them deleted.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::Kinds;
use super::messages::{Api, Reach};

#[derive(Args)]
pub(super) struct EraseArgs {
    #[command(flatten)]
    reach: Reach,
    /// The provider's name.
    provider: String,
    /// The events' ids.
    #[arg(required = true)]
    event_ids: Vec<String>,
    /// Why, for the audit log.
    #[arg(long)]
    reason: String,
    /// Discard their open messages, and whatever else they wait for; without it they are refused.
    #[arg(long)]
    discard: bool,
}

/// `hooklatch erase PROVIDER EVENT_ID…`: id, digest and outcome stay, so that a copy is still known.
pub(super) fn erase(args: &EraseArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let api = Api::new(&args.reach, file, kinds)?;
    let act = if args.discard { "erase_and_discard" } else { "erase" };
    let event_ids: Vec<&String> = args.event_ids.iter().collect();
    api.decide_events(act, (&args.provider, &event_ids), &args.reason, "erased")?;
    Ok(ExitCode::SUCCESS)
}
