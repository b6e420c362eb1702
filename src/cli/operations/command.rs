//! The arguments of `operations`, and what each does.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::progress::{ended, follow};
use super::row::in_full;
use crate::api::{OperationView, ReasonOrder};
use crate::cli::api_client::ApiAnswer;
use crate::cli::decide::WhyArgs;
use crate::cli::desk::{Desk, PagingArgs};
use crate::cli::reach::ReachArgs;
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
    /// Cancel one operation; what was done stays done.
    Cancel {
        #[command(flatten)]
        operation: OperationIdArgs,
        #[command(flatten)]
        why: WhyArgs,
    },
}

#[derive(Args)]
struct OperationIdArgs {
    /// Id of the operation.
    operation_id: String,
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
        }
        OperationsCommand::Wait { operation, timeout } => {
            let end = follow(&desk, find(operation)?, timeout.map(Duration::from_secs))?;
            return Ok(ended(&desk, &end).code());
        }
        OperationsCommand::Cancel { operation, why } => {
            let order = ReasonOrder { reason: why.reason.clone() };
            let path = ["operations", &operation.operation_id, "cancel"];
            let found: ApiAnswer<OperationView> = desk.order(&path, &order, why, None)?;
            desk.show(&found, |view| in_full(view, &desk.screen));
        }
    }
    Ok(ExitCode::SUCCESS)
}
