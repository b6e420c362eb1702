//! `audit`: who decided what, and whether that log is whole.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::api_client::Answered;
use super::desk::{Desk, ListRow, PagingArgs};
use super::ending::Ending;
use super::output::{Cell, Column, Screen, Tone, fields, grouped, told};
use super::reach::ReachArgs;
use super::shared::complain;
use crate::api::{AuditVerified, AuditView};
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
    /// Follow the chain of the audit log from its first row to its last; 1 when it is broken.
    Verify {
        /// The head that an earlier run told, kept elsewhere: 1 when the log ends otherwise now.
        #[arg(long, value_name = "HEX")]
        head: Option<String>,
    },
}

/// Runs `hooklatch audit …`.
pub(super) fn audit(args: &AuditArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    match &args.command {
        AuditCommand::List(paging) => desk.list::<AuditView>(&["audit"], &[], paging)?,
        AuditCommand::Verify { head } => return verify(&desk, head.as_deref()),
    }
    Ok(ExitCode::SUCCESS)
}

fn verify(desk: &Desk, head: Option<&str>) -> anyhow::Result<ExitCode> {
    let found: Answered<AuditVerified> = desk.api.get(&["audit", "verify"], &[])?;
    desk.show(&found, |view| verified(view, &desk.screen));
    let is_other = head.is_some_and(|head| !head.eq_ignore_ascii_case(&found.view.head));
    if is_other {
        complain("the log does not end with that head: rows were added since, or it is another log");
    }
    Ok(if found.view.is_whole && !is_other { Ending::Done } else { Ending::Failed }.code())
}

fn verified(view: &AuditVerified, screen: &Screen) -> String {
    let whole = if view.is_whole {
        Cell::text("whole").in_tone(Tone::Good)
    } else {
        Cell::text("broken").in_tone(Tone::Bad)
    };
    let mut facts = vec![
        ("audit log", whole),
        ("rows", Cell::text(grouped(view.rows_n))),
        ("first", Cell::text(view.first_seq.to_string())),
        ("last", Cell::text(view.last_seq.to_string())),
        ("head", Cell::text(&view.head)),
    ];
    facts.extend(view.broken_at_seq.map(|seq| ("broken at", Cell::text(seq.to_string()))));
    facts.extend(view.reason.as_deref().map(|reason| ("reason", Cell::text(reason))));
    fields(screen, &facts)
}

impl ListRow for AuditView {
    const NOUN: &'static str = "decision";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("number"),
        Column::Whole("time (UTC)"),
        Column::Whole("who"),
        Column::Whole("what"),
        Column::Whole("subject"),
        Column::Loose("detail"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Cell> {
        vec![
            Cell::text(self.audit_seq.to_string()),
            Cell::text(told(self.at_ms, screen.now_ms)),
            Cell::text(&self.actor),
            Cell::text(&self.action),
            Cell::or_dash(subject(self)),
            Cell::text(&self.detail),
        ]
    }
}

/// The narrowest thing that a row is about.
fn subject(row: &AuditView) -> Option<String> {
    let event = row.event_id.as_deref().map(|id| format!("{} {id}", row.provider.as_deref().unwrap_or("?")));
    row.message_id.clone().or(event).or_else(|| row.operation_id.clone()).or_else(|| row.provider.clone())
}
