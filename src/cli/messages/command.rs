//! The arguments of `messages`, and what each does.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::filter::{MessageFilterArgs, message_query};
use super::row::in_full;
use crate::api::{CountView, MessageAct, MessageDetail, MessageView, OperationSubject};
use crate::cli::api_client::ApiAnswer;
use crate::cli::bulk::{Bulk, BulkArgs, Said, counted, perform};
use crate::cli::decide::{VersionArgs, WhyArgs};
use crate::cli::desk::{Desk, PagingArgs};
use crate::cli::reach::ReachArgs;
use crate::load::Kinds;

#[derive(Args)]
pub(crate) struct MessagesArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: MessagesCommand,
}

#[derive(Subcommand)]
enum MessagesCommand {
    /// List the newest messages.
    List {
        #[command(flatten)]
        which: MessageFilterArgs,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Count the messages that a filter finds; --state has to be said.
    Count(MessageFilterArgs),
    /// Show one message, its attempts, and what people decided about it.
    Show {
        /// Id of the message.
        message_id: String,
    },
    /// Send it again, under the same key: a held or dead message, or all that are found.
    Send(DecideMessagesArgs),
    /// Say that it happened.
    Done(DecideMessagesArgs),
    /// Say that it shall not be sent.
    Discard(DecideMessagesArgs),
}

#[derive(Args)]
struct DecideMessagesArgs {
    /// Id of one message; without it, all messages that --state and the other filters find.
    message_id: Option<String>,
    #[command(flatten)]
    which: MessageFilterArgs,
    #[command(flatten)]
    why: WhyArgs,
    #[command(flatten)]
    version: VersionArgs,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `hooklatch messages …`.
pub(crate) fn messages(args: &MessagesArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    match &args.command {
        MessagesCommand::List { which, paging } => {
            let query = message_query(&which.filter(desk.screen.now_ms)?);
            let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_deref())).collect();
            desk.list::<MessageView>(&["messages"], &query, paging)?;
        }
        MessagesCommand::Count(which) => {
            let query = message_query(&which.filter(desk.screen.now_ms)?);
            let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_deref())).collect();
            let found: ApiAnswer<CountView> = desk.api.get(&["messages", "count"], &query)?;
            desk.show(&found, |count| counted(count, "message"));
        }
        MessagesCommand::Show { message_id } => {
            let found: ApiAnswer<MessageDetail> = desk.api.get(&["messages", message_id], &[])?;
            desk.show(&found, |view| in_full(view, &desk.screen, found.etag.as_deref()));
        }
        MessagesCommand::Send(args) => return decide(&desk, MessageAct::Send, args, "will be sent"),
        MessagesCommand::Done(args) => return decide(&desk, MessageAct::Done, args, "done"),
        MessagesCommand::Discard(args) => return decide(&desk, MessageAct::Discard, args, "discarded"),
    }
    Ok(ExitCode::SUCCESS)
}

/// Decides about one message, or about all that are found.
fn decide(desk: &Desk, act: MessageAct, args: &DecideMessagesArgs, done: &str) -> anyhow::Result<ExitCode> {
    let version = args.version.header();
    let (is_filtered, has_version) = (!args.which.is_empty(), version.is_some());
    Said { is_named: args.message_id.is_some(), is_filtered, has_version }.is_about_one("message")?;
    if let Some(id) = &args.message_id {
        let path = ["messages", id.as_str(), "decide"];
        let answer = desk.decide(&path, act, &args.why, version.as_deref()).with_context(|| id.clone())?;
        desk.tell_done(&answer, id, done);
        return Ok(ExitCode::SUCCESS);
    }
    let filter = args.which.filter(desk.screen.now_ms)?;
    let bulk = Bulk {
        query: message_query(&filter),
        subject: OperationSubject::Messages { act, filter },
        typed: format!("{act:?} {:?}", args.which),
    };
    perform::<MessageView>(desk, bulk, &args.why, &args.bulk)
}
