//! `rejected`: requests that were not believed, and at which step.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::desk::{Desk, ListRow, PagingArgs};
use super::output::{Column, Screen, Shown, told};
use super::reach::ReachArgs;
use crate::api::RejectedView;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct RejectedArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: RejectedCommand,
}

#[derive(Subcommand)]
enum RejectedCommand {
    /// List the newest refused requests, and why each was not believed.
    List {
        /// Name of the provider that they were for.
        #[arg(long)]
        provider: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
}

/// Runs `hooklatch rejected …`.
pub(super) fn rejected(args: &RejectedArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let RejectedCommand::List { provider, paging } = &args.command;
    list_rejected(&desk, provider.as_deref(), paging)?;
    Ok(ExitCode::SUCCESS)
}

/// The newest refusals, of one provider or of all.
pub(super) fn list_rejected(desk: &Desk, provider: Option<&str>, paging: &PagingArgs) -> anyhow::Result<()> {
    desk.list::<RejectedView>(&["rejected"], &[("provider", provider)], paging)
}

impl ListRow for RejectedView {
    const NOUN: &'static str = "refused request";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("received (UTC)"),
        Column::Whole("provider"),
        Column::Whole("step"),
        Column::Whole("reason"),
        Column::Loose("detail"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(told(self.received_at_ms, screen.now_ms)),
            Shown::text(&self.provider),
            Shown::text(&self.step),
            Shown::text(&self.reason),
            Shown::text(&self.detail),
        ]
    }
}
