//! The arguments of `events`, and what each does.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::filter::{EventFilterArgs, event_query};
use super::ledger::ledger;
use crate::api::{
    CountView, EventAct, EventFilter, EventView, LedgerView, OperationSubject, SearchHit, SearchView,
};
use crate::cli::api_client::ApiAnswer;
use crate::cli::bulk::{Bulk, BulkArgs, Said, counted, perform};
use crate::cli::decide::{VersionArgs, WhyArgs};
use crate::cli::desk::{Desk, PagingArgs};
use crate::cli::ending::NotFound;
use crate::cli::output::Shown;
use crate::cli::reach::ReachArgs;
use crate::cli::shared::{Usage, heed, say};
use crate::cli::states::delivery_filters;
use crate::load::Kinds;
use crate::types::DeliveryFilter;

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
        /// Those with at least one call that is held, dead, either of the two (stuck), or still to be sent (open).
        #[arg(long, value_parser = delivery_filters(), conflicts_with = "since")]
        delivery: Option<DeliveryFilter>,
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
        /// Id of the event, as its sender has it; the name of its provider before it where several have one of this id.
        #[arg(value_name = "[PROVIDER] ID", num_args = 1..=2, required = true)]
        event: Vec<String>,
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
    /// Calls of which they have at least one.
    #[arg(long, value_parser = delivery_filters())]
    delivery: Option<DeliveryFilter>,
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
        EventsCommand::List { which, delivery, since, paging } => {
            let query =
                event_query(&EventFilter { delivery: *delivery, ..which.filter(desk.screen.now_ms)? });
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
            let (provider, event_id) = resolved(&desk, event)?;
            let path = ["events", provider.as_str(), event_id.as_str()];
            let found: ApiAnswer<LedgerView> =
                desk.api.get(&path, &[]).with_context(|| format!("event {event_id} of {provider}"))?;
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

/// The provider and the id of an event that was named by both, or by its id alone.
fn resolved(desk: &Desk, named: &[String]) -> anyhow::Result<(String, String)> {
    let event_id = match named {
        [provider, event_id] => return Ok((provider.clone(), event_id.clone())),
        [event_id] => event_id,
        _ => return Err(Usage("name one event".to_owned()).into()),
    };
    let found: ApiAnswer<SearchView> = desk.api.get(&["search"], &[("id", Some(event_id))])?;
    let providers: Vec<&str> = found
        .view
        .found
        .iter()
        .filter_map(|hit| match hit {
            SearchHit::EventId { event } => Some(event.provider.as_str()),
            _ => None,
        })
        .collect();
    let id = Shown::text(event_id);
    match providers[..] {
        [provider] => Ok((provider.to_owned(), event_id.clone())),
        [] => Err(NotFound(format!(
            "no event has the id {}; `hooklatch search` says what else is known of it",
            id.as_str()
        ))
        .into()),
        _ => {
            let ways = providers.iter().map(|one| format!("hooklatch events show {one} {}", id.as_str()));
            let ways = ways.collect::<Vec<_>>().join("\n  ");
            Err(Usage(format!("{} providers have an event of this id:\n  {ways}", providers.len())).into())
        }
    }
}

/// The bytes as they are, into a file or a pipe; on a terminal escaped.
fn body(desk: &Desk, event: &EventIdArgs, output: Option<&Path>) -> anyhow::Result<()> {
    let bytes = desk
        .api
        .bytes(&["events", &event.provider, &event.event_id, "body"])
        .with_context(|| format!("body of event {} of {}", event.event_id, event.provider))?;
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
    let (is_filtered, has_version) = (!args.which.is_empty() || args.delivery.is_some(), version.is_some());
    Said { is_named: named.is_some(), is_filtered, has_version }.is_about_one("event")?;
    if let Some((provider, event_id)) = named {
        let path = ["events", provider.as_str(), event_id.as_str(), "decide"];
        let answer = desk.decide(&path, act, &args.why, version.as_deref()).context(event_id.clone())?;
        desk.tell_done(&answer, event_id, done);
        return Ok(ExitCode::SUCCESS);
    }
    let filter = EventFilter { delivery: args.delivery, ..args.which.filter(desk.screen.now_ms)? };
    let bulk = Bulk {
        query: event_query(&filter),
        subject: OperationSubject::Events { act, filter },
        typed: format!("{act:?} {:?} {:?}", args.which, args.delivery),
    };
    perform::<EventView>(desk, bulk, &args.why, &args.bulk)
}
