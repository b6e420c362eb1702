//! The arguments of `operations`, and what each does.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::progress::{ended, follow};
use super::row::in_full;
use crate::api::{OperationPreview, OperationState, OperationView, ReasonOrder};
use crate::cli::api_client::ApiAnswer;
use crate::cli::bulk::{self, show_rows};
use crate::cli::decide::WhyArgs;
use crate::cli::desk::{Desk, PagingArgs};
use crate::cli::reach::ReachArgs;
use crate::cli::shared::say;
use crate::load::Kinds;

#[derive(Args)]
pub(crate) struct OperationsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: OperationsCommand,
}

#[derive(Subcommand)]
enum OperationsCommand {
    /// List the newest operations.
    List(PagingArgs),
    /// Show one operation and its progress.
    Show(OperationIdArgs),
    /// Follow one operation to its end; 7 when it still runs.
    Wait {
        #[command(flatten)]
        operation: OperationIdArgs,
        /// Longest time to wait. Seconds; without it, until the end.
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// Approve one operation that somebody else ordered: it begins.
    Approve(DecideOperationArgs),
    /// Continue one operation that stopped because too many of its calls failed.
    Continue(DecideOperationArgs),
    /// Cancel one operation; what was done stays done.
    Cancel(DecideOperationArgs),
}

#[derive(Args)]
struct OperationIdArgs {
    /// Id of the operation.
    operation_id: String,
}

#[derive(Args)]
struct DecideOperationArgs {
    #[command(flatten)]
    operation: OperationIdArgs,
    #[command(flatten)]
    why: WhyArgs,
}

/// The command that decides about an operation, to be typed as it stands but for the reason.
pub(crate) fn command(word: &str, operation_id: &str) -> String {
    format!("hooklatch operations {word} {operation_id} --reason \"…\"")
}

/// Runs `hooklatch operations …`.
pub(crate) fn operations(
    args: &OperationsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let find = |operation: &OperationIdArgs| desk.api.get(&["operations", &operation.operation_id], &[]);
    match &args.command {
        OperationsCommand::List(paging) => desk.list::<OperationView>(&["operations"], &[], paging)?,
        OperationsCommand::Show(operation) => {
            let found: ApiAnswer<OperationView> = find(operation)?;
            desk.show(&found, |view| in_full(view, &desk.screen));
            if found.view.state == OperationState::Waiting && !desk.screen.is_json {
                acts_on(&desk, &operation.operation_id)?;
            }
        }
        OperationsCommand::Wait { operation, timeout } => {
            let end = follow(&desk, find(operation)?, timeout.map(Duration::from_secs))?;
            return Ok(ended(&desk, &end).code());
        }
        OperationsCommand::Approve(args) => decide(&desk, "approve", args)?,
        OperationsCommand::Continue(args) => decide(&desk, "continue", args)?,
        OperationsCommand::Cancel(args) => decide(&desk, "cancel", args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what is to be approved: the rows as they are now, what is done to them, and what that risks.
fn acts_on(desk: &Desk, operation_id: &str) -> anyhow::Result<()> {
    let preview: ApiAnswer<OperationPreview> = desk.api.get(&["operations", operation_id, "preview"], &[])?;
    show_rows(&desk.screen, &preview.view);
    preview.view.acts.iter().for_each(|act| say(bulk::in_full(act, 1)));
    Ok(())
}

fn decide(desk: &Desk, word: &str, args: &DecideOperationArgs) -> anyhow::Result<()> {
    let order = ReasonOrder { reason: args.why.reason.clone() };
    let path = ["operations", &args.operation.operation_id, word];
    let found: ApiAnswer<OperationView> = desk.order(&path, &order, &args.why, None)?;
    desk.show(&found, |view| in_full(view, &desk.screen));
    Ok(())
}
