//! `hooklatch erase`: the bytes of single events, for people who have a right to have them deleted.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::decide::WhyArgs;
use super::desk::Desk;
use super::reach::ReachArgs;
use super::shared::Usage;
use crate::api::EventAct;
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
    #[command(flatten)]
    why: WhyArgs,
    /// Discard their open messages, and whatever else they wait for; without it they are refused.
    #[arg(long)]
    discard: bool,
}

/// `hooklatch erase PROVIDER EVENT_ID…`: id, digest and outcome stay, so that a copy is still known.
pub(super) fn erase(args: &EraseArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let act = if args.discard { EventAct::EraseAndDiscard } else { EventAct::Erase };
    if args.why.key.is_some() && args.event_ids.len() > 1 {
        return Err(Usage("--key is for one order: erase one event".to_owned()).into());
    }
    for event_id in &args.event_ids {
        let path = ["events", &args.provider, event_id, "decide"];
        let answer = desk.decide(&path, act, &args.why, None).with_context(|| event_id.clone())?;
        desk.tell_done(&answer, event_id, "erased");
    }
    Ok(ExitCode::SUCCESS)
}
