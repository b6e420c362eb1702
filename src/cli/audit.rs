//! `audit`: who decided what, and whether that log is whole.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::api_client::ApiAnswer;
use super::desk::{Desk, ListRow, PagingArgs};
use super::ending::Ending;
use super::output::{Column, Screen, Shown, Tone, fields, grouped, told};
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
        /// The head that an earlier run told, kept elsewhere: 1 when that row is no longer as it was.
        #[arg(long)]
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
    let mut all = followed(desk, None)?;
    let mut told_at = Instant::now();
    while let (true, Some(next)) = (all.is_whole, all.next.take()) {
        let more = followed(desk, Some(&next))?;
        all = AuditVerified { rows_n: all.rows_n + more.rows_n, first_seq: all.first_seq, ..more };
        if told_at.elapsed() > Duration::from_secs(1) {
            told_at = Instant::now();
            complain(format!("{} rows so far", grouped(all.rows_n)));
        }
    }
    // The chain is whole up to its end; now whether it is the one of which the head was kept.
    let kept = head.filter(|_| all.is_whole).map(|head| followed(desk, Some(head))).transpose()?;
    if let Some(kept) = kept {
        all.is_whole = kept.is_whole;
        all.broken_at_seq = kept.broken_at_seq;
        all.reason = kept.reason;
    }
    let raw = serde_json::to_value(&all)?;
    let all = ApiAnswer { view: all, raw, etag: None };
    desk.show(&all, |view| verified(view, &desk.screen));
    Ok(if all.view.is_whole { Ending::Done } else { Ending::Failed }.code())
}

/// One stretch of the log, behind `cursor`.
fn followed(desk: &Desk, cursor: Option<&str>) -> anyhow::Result<AuditVerified> {
    let found: ApiAnswer<AuditVerified> = desk.api.get(&["audit", "verify"], &[("cursor", cursor)])?;
    Ok(found.view)
}

fn verified(view: &AuditVerified, screen: &Screen) -> String {
    let whole = if view.is_whole {
        Shown::text("whole").in_tone(Tone::Good)
    } else {
        Shown::text("broken").in_tone(Tone::Bad)
    };
    let mut facts = vec![
        ("audit log", whole),
        ("rows", Shown::text(grouped(view.rows_n))),
        ("first", Shown::text(view.first_seq.to_string())),
        ("last", Shown::text(view.last_seq.to_string())),
        ("head", Shown::text(&view.head)),
    ];
    facts.extend(view.broken_at_seq.map(|seq| ("broken at", Shown::text(seq.to_string()))));
    facts.extend(view.reason.as_deref().map(|reason| ("reason", Shown::text(reason))));
    fields(screen, &facts)
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
