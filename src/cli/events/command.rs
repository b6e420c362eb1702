//! The arguments of `events`, and what each does.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::filter::{EventFilterArgs, event_query};
use super::ledger::ledger;
use crate::api::{CountView, EventAct, EventView, LedgerView, OperationSubject};
use crate::cli::api_client::ApiAnswer;
use crate::cli::bulk::{Bulk, BulkArgs, Said, counted, perform};
use crate::cli::decide::{VersionArgs, WhyArgs};
use crate::cli::desk::{Desk, PagingArgs};
use crate::cli::reach::ReachArgs;
use crate::cli::shared::{heed, say};
use crate::load::Kinds;

#[derive(Args)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Subcommand)]
enum EventsCommand {
    /// List the newest events.
    List {
        #[command(flatten)]
        which: EventFilterArgs,
        /// Those that arrived behind this point, the oldest first: `since` of an earlier page.
        #[arg(long, value_name = "CURSOR", conflicts_with = "cursor")]
        since: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Count the events that a filter finds; --state has to be said.
    Count(EventFilterArgs),
    /// Show all that is known of one event, in order of time.
    Show {
        #[command(flatten)]
        event: EventIdArgs,
        /// Show the headers and the body too.
        #[arg(long)]
        content: bool,
    },
    /// Print the bytes of an event's body; the audit log tells of it.
    Body {
        #[command(flatten)]
        event: EventIdArgs,
        /// Write them to this file instead.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Dispatch it once more: its messages are new ones, under new keys, and what they do is done again.
    Rerun(DecideEventsArgs),
    /// Dispatch what was kept beside another event, a conflict or a replay: an event of its own from now on.
    Dispatch(DecideEventsArgs),
    /// Say that nothing is to be done about a conflict.
    Dismiss(DecideEventsArgs),
}

#[derive(Args)]
struct EventIdArgs {
    /// Name of the event's provider.
    provider: String,
    /// Id of the event, as its sender has it.
    event_id: String,
}

#[derive(Args)]
struct DecideEventsArgs {
    /// Name of one event's provider; without it, all events that --state and the other filters find.
    #[arg(value_name = "PROVIDER", requires = "event_id")]
    of: Option<String>,
    /// Id of that event, as its sender has it.
    event_id: Option<String>,
    #[command(flatten)]
    which: EventFilterArgs,
    #[command(flatten)]
    why: WhyArgs,
    #[command(flatten)]
    version: VersionArgs,
    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `hooklatch events …`.
pub(crate) fn events(args: &EventsArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    match &args.command {
        EventsCommand::List { which, since, paging } => {
            let query = event_query(&which.filter(desk.screen.now_ms)?);
            let mut query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_deref())).collect();
            query.push(("since", since.as_deref()));
            desk.list::<EventView>(&["events"], &query, paging)?;
        }
        EventsCommand::Count(which) => {
            let query = event_query(&which.filter(desk.screen.now_ms)?);
            let query: Vec<_> = query.iter().map(|(name, value)| (*name, value.as_deref())).collect();
            let found: ApiAnswer<CountView> = desk.api.get(&["events", "count"], &query)?;
            desk.show(&found, |count| counted(count, "event"));
        }
        EventsCommand::Show { event, content } => {
            let path = ["events", &event.provider, &event.event_id];
            let found: ApiAnswer<LedgerView> = desk.api.get(&path, &[])?;
            desk.show(&found, |view| ledger(view, &desk.screen, found.etag.as_deref(), *content));
        }
        EventsCommand::Body { event, output } => body(&desk, event, output.as_deref())?,
        EventsCommand::Rerun(args) => {
            return decide(&desk, EventAct::Rerun, args, "will be dispatched again");
        }
        EventsCommand::Dispatch(args) => {
            return decide(&desk, EventAct::Dispatch, args, "will be dispatched");
        }
        EventsCommand::Dismiss(args) => return decide(&desk, EventAct::Dismiss, args, "dismissed"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The bytes as they are, into a file or a pipe; on a terminal escaped.
fn body(desk: &Desk, event: &EventIdArgs, output: Option<&Path>) -> anyhow::Result<()> {
    let bytes = desk.api.bytes(&["events", &event.provider, &event.event_id, "body"])?;
    if let Some(file) = output {
        return std::fs::write(file, bytes).with_context(|| format!("could not write `{}`", file.display()));
    }
    if std::io::stdout().is_terminal() {
        say(String::from_utf8_lossy(&bytes));
    } else {
        heed(std::io::stdout().write_all(&bytes));
    }
    Ok(())
}

fn decide(desk: &Desk, act: EventAct, args: &DecideEventsArgs, done: &str) -> anyhow::Result<ExitCode> {
    let version = args.version.header();
    let named = args.of.as_ref().zip(args.event_id.as_ref());
    let (is_filtered, has_version) = (!args.which.is_empty(), version.is_some());
    Said { is_named: named.is_some(), is_filtered, has_version }.is_about_one("event")?;
    if let Some((provider, event_id)) = named {
        let path = ["events", provider.as_str(), event_id.as_str(), "decide"];
        let answer = desk.decide(&path, act, &args.why, version.as_deref()).context(event_id.clone())?;
        desk.tell_done(&answer, event_id, done);
        return Ok(ExitCode::SUCCESS);
    }
    let filter = args.which.filter(desk.screen.now_ms)?;
    let bulk = Bulk {
        query: event_query(&filter),
        subject: OperationSubject::Events { act, filter },
        typed: format!("{act:?} {:?}", args.which),
    };
    perform::<EventView>(desk, bulk, &args.why, &args.bulk)
}
