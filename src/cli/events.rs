//! `events`: the events of a server, one with its ledger, and operators' decisions about them; and `erase`.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::json;

use super::api_client::OrderPlace;
use super::bulk::{ActArgs, Filter, time};
use super::ledger::ledger;
use super::output::Column::{Id, Loose, Whole};
use super::output::Shown;
use super::remote::{ListColumn, ListRow, PagingArgs, Remote, ServerCommand, WhyArgs, to};
use super::shared::{NotFound, Usage, note_closed_pipe, say};
use hooklatch_contract::{EventAct, EventView, LedgerView, SearchHit, SearchView};
use hooklatch_core::types::{DeliveryFilter, EventState};

/// Filter for events; what is not given leaves nothing out.
#[derive(Args)]
pub(super) struct EventFilterArgs {
    /// State in which they stand.
    #[arg(long, value_parser = PossibleValuesParser::new(EventState::ALL.iter().map(|one| one.as_str())))]
    state: Option<String>,
    /// Name of their provider.
    #[arg(long)]
    provider: Option<String>,
    /// Type in the sender's words, exactly.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Object that they are about, exactly.
    #[arg(long)]
    object: Option<String>,
    /// Received at this time or later: 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d for so long ago.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Received before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

impl EventFilterArgs {
    /// The filter, with a choice of events by their calls.
    pub(super) fn filter(&self, delivery: Option<&String>, now_ms: i64) -> Result<Filter, Usage> {
        Ok(Filter(vec![
            ("state", json!(self.state)),
            ("provider", json!(self.provider)),
            ("type", json!(self.event_type)),
            ("object", json!(self.object)),
            ("delivery", json!(delivery)),
            ("received_from_ms", time("from", self.from.as_ref(), now_ms)?),
            ("received_to_ms", time("to", self.to.as_ref(), now_ms)?),
        ]))
    }
}

#[derive(Subcommand)]
pub(super) enum Events {
    /// List the newest events.
    List {
        #[command(flatten)]
        which: EventFilterArgs,
        /// Those with at least one call that is held, dead, either of the two (stuck), or still to be sent (open).
        #[arg(long, value_parser = delivery_filters(), conflicts_with = "since")]
        delivery: Option<String>,
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
    /// Print the bytes of an event's body; the audit log records it.
    Body {
        /// Name of the event's provider.
        provider: String,
        /// Id of the event, as its sender has it.
        event_id: String,
        /// Write them to this file instead.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Dispatch it once more: its messages are new ones, under new keys, and what they do is done again.
    Rerun(DecideArgs),
    /// Dispatch what was kept beside another event, a conflict or a replay: an event of its own from now on.
    Dispatch(DecideArgs),
    /// Say that nothing is to be done about a conflict.
    Dismiss(DecideArgs),
}

fn delivery_filters() -> PossibleValuesParser {
    PossibleValuesParser::new(DeliveryFilter::ALL.iter().map(|one| one.as_str()))
}

#[derive(Args)]
pub(super) struct DecideArgs {
    /// Name of one event's provider; without it, all events that --state and the other filters find.
    #[arg(value_name = "PROVIDER", requires = "event_id")]
    of: Option<String>,
    /// Id of that event, as its sender has it.
    event_id: Option<String>,
    #[command(flatten)]
    which: EventFilterArgs,
    /// Calls of which they have at least one.
    #[arg(long, value_parser = delivery_filters())]
    delivery: Option<String>,
    #[command(flatten)]
    act: ActArgs,
}

impl ServerCommand for Events {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let now_ms = remote.screen.now_ms;
        let (args, act) = match self {
            Self::List { which, delivery, since, paging } => {
                let filter = which.filter(delivery.as_ref(), now_ms)?;
                return filter.with_query(|query| {
                    let query = [query, &[("since", since.as_deref())]].concat();
                    remote.list::<EventView>(&["events"], &query, Some(paging))
                });
            }
            Self::Count(which) => return which.filter(None, now_ms)?.count::<EventView>(remote, "events"),
            Self::Show { event, content } => {
                let (provider, event_id) = resolved(remote, event)?;
                let path = ["events", provider.as_str(), event_id.as_str()];
                let found = remote.show(&path, &[], |view: &LedgerView, screen, version| {
                    ledger(view, screen, version, *content)
                });
                return found.with_context(|| format!("event {event_id} of {provider}"));
            }
            Self::Body { provider, event_id, output } => {
                let bytes = remote.api.bytes(&["events", provider, event_id, "body"]);
                let bytes = bytes.with_context(|| format!("body of event {event_id} of {provider}"))?;
                return print_body(&bytes, output.as_deref());
            }
            Self::Rerun(args) => (args, ("rerun", "will be dispatched again")),
            Self::Dispatch(args) => (args, ("dispatch", "will be dispatched")),
            Self::Dismiss(args) => (args, ("dismiss", "dismissed")),
        };
        let named = args.of.as_deref().into_iter().chain(args.event_id.as_deref());
        let nouns: Vec<&str> = std::iter::once("events").chain(named).collect();
        let filter = args.which.filter(args.delivery.as_ref(), now_ms)?;
        args.act.act::<EventView>(remote, act, &nouns, &filter)
    }
}

/// The provider and the id of an event that the arguments name by both, or by its id alone.
fn resolved(remote: &Remote, named: &[String]) -> anyhow::Result<(String, String)> {
    let event_id = match named {
        [provider, event_id] => return Ok((provider.clone(), event_id.clone())),
        [event_id] => event_id,
        _ => return Err(Usage("name one event".to_owned()).into()),
    };
    let found = remote.api.get::<SearchView>(&["search"], &[("id", Some(event_id))])?;
    let hits = found.view.found.into_iter();
    let providers = hits.filter_map(|hit| match hit {
        SearchHit::EventId { event } => Some(event.provider),
        _ => None,
    });
    let providers: Vec<String> = providers.collect();
    let shown = Shown::text(event_id);
    let id = shown.as_str();
    match &providers[..] {
        [provider] => Ok((provider.clone(), event_id.clone())),
        [] => {
            let why = format!("no event has the id {id}; `hooklatch search` says what else is known of it");
            Err(NotFound(why).into())
        }
        _ => {
            let ways = providers.iter().map(|one| format!("\n  hooklatch events show {one} {id}"));
            let ways: String = ways.collect();
            Err(Usage(format!("{} providers have an event of this id:{ways}", providers.len())).into())
        }
    }
}

/// Prints bytes as they are into a file or a pipe, and escaped on a terminal.
fn print_body(bytes: &[u8], output: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(file) = output {
        std::fs::write(file, bytes).with_context(|| format!("could not write `{}`", file.display()))?;
    } else if std::io::stdout().is_terminal() {
        say(String::from_utf8_lossy(bytes));
    } else {
        note_closed_pipe(std::io::stdout().write_all(bytes));
    }
    Ok(ExitCode::SUCCESS)
}

impl ListRow for EventView {
    const NOUN: &'static str = "event";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("received (UTC)"), |one, screen| screen.time(one.received_at_ms)),
        (Whole("provider"), |one, _| Shown::text(&one.provider)),
        (Id("event id"), |one, _| Shown::text(&one.event_id)),
        (Whole("type"), |one, _| Shown::text(&one.event_type)),
        (Whole("state"), |one, _| Shown::event_state(one.state)),
        (Whole("calls"), |one, _| Shown::delivery(&one.delivery)),
        (Loose("error"), |one, _| Shown::or_dash(one.error.as_ref().or(one.delivery.error.as_ref()))),
    ];
}

/// `erase PROVIDER EVENT_ID…`: the bytes of single events, for people who have a right to have them deleted. Id, digest and
/// outcome stay, so that a copy is still known.
#[derive(Args)]
pub(super) struct Erase {
    /// Name of the events' provider.
    provider: String,
    /// Ids of the events, as their sender has them.
    #[arg(required = true)]
    event_ids: Vec<String>,
    #[command(flatten)]
    why: WhyArgs,
    /// Discard their open messages, and whatever else they wait for; without it they are refused.
    #[arg(long)]
    discard: bool,
}

impl ServerCommand for Erase {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        if self.why.key.is_some() && self.event_ids.len() > 1 {
            return Err(Usage("--key is for one order: erase one event".to_owned()).into());
        }
        let act = if self.discard { EventAct::EraseAndDiscard } else { EventAct::Erase };
        for event_id in &self.event_ids {
            let path = ["events", &self.provider, event_id, "decide"];
            let place = OrderPlace {
                path: &path,
                key: self.why.key.as_deref(),
                if_unknown: Some(
                    "whether it was erased is not known: give the same command again, which changes nothing about what is \
                     erased already",
                ),
                ..OrderPlace::default()
            };
            remote.decide_at(&place, event_id, &to(act, &self.why), "erased")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
