//! `audit`: who decided what, and who looked at contents.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::desk::{Desk, ListRow, PagingArgs};
use super::output::{Column, Screen, Shown, told};
use super::reach::ReachArgs;
use crate::api::AuditView;
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Subcommand)]
enum AuditCommand {
    /// List the newest rows of the audit log: decisions, and looks at contents.
    List(PagingArgs),
}

/// Runs `hooklatch audit …`.
pub(super) fn audit(args: &AuditArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let AuditCommand::List(paging) = &args.command;
    desk.list::<AuditView>(&["audit"], &[], paging)?;
    Ok(ExitCode::SUCCESS)
}

impl ListRow for AuditView {
    const NOUN: &'static str = "decision";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("number"),
        Column::Whole("time (UTC)"),
        Column::Whole("who"),
        Column::Whole("what"),
        Column::Id("subject"),
        Column::Loose("detail"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(self.audit_seq.to_string()),
            Shown::text(told(self.at_ms, screen.now_ms)),
            Shown::text(&self.actor),
            Shown::text(&self.action),
            Shown::or_dash(subject(self)),
            Shown::text(&self.detail),
        ]
    }
}

/// The narrowest thing that a row is about.
fn subject(row: &AuditView) -> Option<String> {
    let event = row.event_id.as_deref().map(|id| format!("{} {id}", row.provider.as_deref().unwrap_or("?")));
    row.message_id.clone().or(event).or_else(|| row.operation_id.clone()).or_else(|| row.provider.clone())
}
