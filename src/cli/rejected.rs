//! `rejected`: requests that were refused, and why.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::api_client::ApiAnswer;
use super::desk::{Desk, ListRow, PagingArgs, rows};
use super::output::{Column, Screen, Shown, told};
use super::reach::ReachArgs;
use crate::api::{BacklogView, Page, RejectedGroup, RejectedView, UnknownPathView};
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
    /// List the newest refused requests, and why each was refused.
    ///
    /// Step `request`: refused before it was verified, because of its size, its speed or its method. Step `address`: not
    /// in `allow_from`. All others: its signature was not valid.
    List {
        /// Name of the provider that they were for.
        #[arg(long)]
        provider: Option<String>,
        /// Reason for which they were refused, such as `mismatch`.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Count the refused requests that are kept, by provider, reason and client: the 50 largest groups.
    Groups,
    /// List paths that no provider has and that were posted to, with the provider that was probably meant.
    ///
    /// Each node keeps 32 of them in memory, since its start.
    Paths,
}

/// Runs `hooklatch rejected …`.
pub(super) fn rejected(args: &RejectedArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    match &args.command {
        RejectedCommand::List { provider, reason, paging } => {
            list_rejected(
                &desk,
                &[("provider", provider.as_deref()), ("reason", reason.as_deref())],
                paging,
            )?;
        }
        RejectedCommand::Groups => {
            let answer: ApiAnswer<Page<RejectedGroup>> = desk.api.get(&["rejected", "groups"], &[])?;
            desk.show(&answer, |page| match page.items.as_slice() {
                [] => "no refused request is kept".to_owned(),
                groups => rows(&desk.screen, groups, true),
            });
        }
        RejectedCommand::Paths => {
            let answer: ApiAnswer<BacklogView> = desk.api.get(&["backlog"], &[])?;
            desk.show(&answer, |view| match view.unknown_paths.as_slice() {
                [] => "no path without a provider was posted to since this node started".to_owned(),
                paths => rows(&desk.screen, paths, true),
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The newest refused requests that the filter finds.
pub(super) fn list_rejected(
    desk: &Desk,
    filter: &[(&'static str, Option<&str>)],
    paging: &PagingArgs,
) -> anyhow::Result<()> {
    desk.list::<RejectedView>(&["rejected"], filter, paging)
}

impl ListRow for RejectedView {
    const NOUN: &'static str = "refused request";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("received (UTC)"),
        Column::Whole("provider"),
        Column::Whole("step"),
        Column::Whole("reason"),
        Column::Id("client"),
        Column::Loose("detail"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(told(self.received_at_ms, screen.now_ms)),
            Shown::text(&self.provider),
            Shown::text(&self.step),
            Shown::text(&self.reason),
            Shown::text(self.client_address.as_deref().unwrap_or("-")),
            Shown::text(&self.detail),
        ]
    }
}

impl ListRow for RejectedGroup {
    const NOUN: &'static str = "group";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("requests"),
        Column::Whole("last (UTC)"),
        Column::Whole("provider"),
        Column::Id("client"),
        Column::Loose("reason"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(self.requests_n.to_string()),
            Shown::text(told(self.last_at_ms, screen.now_ms)),
            Shown::text(&self.provider),
            Shown::text(self.client_address.as_deref().unwrap_or("-")),
            Shown::text(&self.reason),
        ]
    }
}

impl ListRow for UnknownPathView {
    const NOUN: &'static str = "path";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("last (UTC)"),
        Column::Whole("requests"),
        Column::Id("client"),
        Column::Whole("did it mean"),
        Column::Whole("signed like"),
        Column::Loose("path"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        let or_none = |text: &Option<String>| Shown::text(text.as_deref().unwrap_or("-"));
        vec![
            Shown::text(told(self.last_at_ms, screen.now_ms)),
            Shown::text(self.requests_n.to_string()),
            or_none(&self.client_address),
            or_none(&self.nearest_provider),
            or_none(&self.signature_of_kind),
            Shown::text(&self.path),
        ]
    }
}
