//! `lanes`: messages that go one after the other, and what is at the head of each.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::desk::{Desk, ListRow, PagingArgs};
use super::output::{Column, Screen, Shown, Tone, told};
use super::reach::ReachArgs;
use crate::api::LaneView;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct LanesArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: LanesCommand,
}

#[derive(Subcommand)]
enum LanesCommand {
    /// List the lanes that have open messages: head, depth, and why it does not move.
    List {
        /// Name of the destination.
        #[arg(long)]
        destination: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
}

/// Runs `hooklatch lanes …`.
pub(super) fn lanes(args: &LanesArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let LanesCommand::List { destination, paging } = &args.command;
    desk.list::<LaneView>(&["lanes"], &[("destination", destination.as_deref())], paging)?;
    Ok(ExitCode::SUCCESS)
}

impl ListRow for LaneView {
    const NOUN: &'static str = "lane";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("destination"),
        Column::Whole("lane"),
        Column::Whole("depth"),
        Column::Whole("blocked by"),
        Column::Whole("head since (UTC)"),
        Column::Id("head"),
        Column::Whole("state"),
        Column::Loose("what it means"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(&self.destination),
            Shown::text(&self.lane),
            Shown::number(self.depth_n),
            Shown::or_dash(self.blocked_by.as_deref()).in_tone(Tone::Waits),
            Shown::text(told(self.since_ms, screen.now_ms)),
            Shown::text(self.head.message_id.to_string()),
            Shown::message_state(self.head.state),
            Shown::or_dash(self.head.judgement.as_ref().map(|one| one.headline.as_str())),
        ]
    }
}
