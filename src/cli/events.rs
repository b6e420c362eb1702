//! `events`: the events of a server, one with its ledger as a timeline, and operators' decisions about them; `erase`;
//! and `tail`, which fetches the newest page of the list every two seconds and leaves out events that it has shown, by
//! identity: with several nodes an event can appear below one that was shown.

use std::collections::HashSet;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api_client::{ApiError, OrderPlace, pause};
use super::operations::{ActArgs, Filter, time};
use super::output::Column::{Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields, with_times};
use super::remote::{ListColumn, ListRow, PagingArgs, Remote, ServerCommand, WhyArgs, to, version_fact};
use super::shared::{NotFound, Usage, complain, is_reader_gone, note_closed_pipe, say};
use hooklatch_contract::{
    AttemptView, ContentView, EventAct, EventView, LedgerEntry, LedgerView, LedgerWhat, Page, Risk,
    SearchHit, SearchView,
};
use hooklatch_core::figures::{grouped, plural, reruns};
use hooklatch_core::plain;
use hooklatch_core::times::{day, in_day};
use hooklatch_core::types::{DeliveryFilter, EventState};

/// Filter for events.
#[derive(Args)]
pub(super) struct EventFilterArgs {
    /// State of the event.
    #[arg(long, value_parser = PossibleValuesParser::new(EventState::ALL.iter().map(|one| one.as_str())))]
    state: Option<String>,
    /// Name of the provider.
    #[arg(long)]
    provider: Option<String>,
    /// Event type of the sender, exact.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Id of the object, exact.
    #[arg(long)]
    object: Option<String>,
    /// Received at or after this time: 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d ago.
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
    /// List events, newest first.
    List {
        #[command(flatten)]
        which: EventFilterArgs,
        /// Events with a call that is held, dead, stuck (held or dead) or open (not sent yet).
        #[arg(long, value_parser = delivery_filters(), conflicts_with = "since")]
        delivery: Option<String>,
        /// Events after this cursor, oldest first: `since` of an earlier page.
        #[arg(long, value_name = "CURSOR", conflicts_with = "cursor")]
        since: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show one event and its history.
    Show {
        /// Event id; the provider before it if several providers have this id.
        #[arg(value_name = "[PROVIDER] ID", num_args = 1..=2, required = true)]
        event: Vec<String>,
        /// Show headers and body too.
        #[arg(long)]
        content: bool,
    },
    /// Print the body of an event. Recorded in the audit log.
    Body {
        /// Name of the provider.
        provider: String,
        /// Event id.
        event_id: String,
        /// Write the body to this file instead.
        #[arg(long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Dispatch an event again: new messages under new keys repeat its effects.
    Rerun(DecideArgs),
    /// Dispatch a conflict or replay as an event of its own.
    Dispatch(DecideArgs),
    /// Dismiss a conflict: nothing is dispatched.
    Dismiss(DecideArgs),
}

fn delivery_filters() -> PossibleValuesParser {
    PossibleValuesParser::new(DeliveryFilter::ALL.iter().map(|one| one.as_str()))
}

#[derive(Args)]
pub(super) struct DecideArgs {
    /// Provider of one event. Without it: all events that the filter matches.
    #[arg(value_name = "PROVIDER", requires = "event_id")]
    of: Option<String>,
    /// Event id.
    event_id: Option<String>,
    #[command(flatten)]
    which: EventFilterArgs,
    /// Events with a call in this state.
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

/// `erase PROVIDER EVENT_ID…`: the bytes of single events, for people who have a right to have them deleted. Id, digest
/// and outcome stay, so that a copy is still known.
#[derive(Args)]
pub(super) struct Erase {
    /// Name of the provider.
    provider: String,
    /// Event ids.
    #[arg(required = true)]
    event_ids: Vec<String>,
    #[command(flatten)]
    why: WhyArgs,
    /// Discard open messages and pending retries, too; without it events that have some are refused.
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
            let place = OrderPlace::new(&path, self.why.key.as_deref()).or(
                "whether it was erased is not known: give the same command again, which changes nothing about what is erased \
                 already",
            );
            remote.decide_at(&place, event_id, &to(act, &self.why), "erased")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The whole page. With `has_content`, headers and body follow.
pub(super) fn ledger(view: &LedgerView, screen: &Screen, version: Option<&str>, has_content: bool) -> String {
    let mut parts = vec![facts(view, screen, version), judgement(view, screen)];
    if view.is_cut {
        parts.push("the oldest entries are left out".to_owned());
    }
    parts.push(timeline(&view.entries, screen));
    let mut left_out = Vec::new();
    if view.conflicts_unkept_n > 0 {
        let unkept = plural(view.conflicts_unkept_n, "copy").replace("copys", "copies");
        left_out.push(format!("{unkept} with other content were received and not kept"));
    }
    if view.hidden_messages_n > 0 {
        let hidden = plural(view.hidden_messages_n, "message");
        left_out.push(format!("{hidden} to destinations that this token does not reach are not shown"));
    }
    left_out.extend(view.damaged.iter().map(|row| Shown::text(row.sentence()).as_str().to_owned()));
    parts.extend((!left_out.is_empty()).then(|| left_out.join("\n")));
    parts.extend(view.content.as_ref().filter(|_| has_content).map(|content| content_lines(content, screen)));
    parts.join("\n\n")
}

/// What happened and what it means, then the possible acts with the risk of each.
fn judgement(view: &LedgerView, screen: &Screen) -> String {
    let mut lines = vec![Shown::text(&view.judgement.headline).as_str().to_owned()];
    for one in &view.judgement.acts {
        let word = serde_json::to_value(one.act).ok();
        let word = word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let (risk, tone) = match one.risk {
            Risk::None => ("", Tone::Plain),
            Risk::MayRepeatEffect => (" (may repeat an effect)", Tone::Waits),
            Risk::LosesEffect => (" (loses an effect)", Tone::Bad),
            Risk::CannotSay => (" (risk not known)", Tone::Waits),
        };
        let sentence = Shown::text(&one.sentence);
        let (word, risk) = (word.replace('_', " "), screen.paint(tone, risk));
        lines.push(format!("  {word}{risk}: {}", sentence.as_str()));
    }
    lines.join("\n")
}

fn facts(view: &LedgerView, screen: &Screen, version: Option<&str>) -> String {
    let event = &view.event;
    let mut facts = vec![
        ("event", Shown::text(&event.event_id)),
        ("provider", Shown::text(&event.provider)),
        ("type", Shown::text(&event.event_type)),
        ("state", Shown::event_state(event.state)),
    ];
    if !event.parts.is_empty() {
        facts.insert(1, ("parts", Shown::text(event.parts.join(" · "))));
    }
    let calls = Shown::delivery(&event.delivery);
    facts.push(match &event.delivery.error {
        Some(error) => ("calls", Shown::text(format!("{}: {error}", calls.as_str())).in_tone(calls.tone())),
        None => ("calls", calls),
    });
    facts.extend(event.error.as_deref().map(|error| ("error", Shown::text(error))));
    facts.extend(event.object.as_deref().map(|object| {
        let version = event.version.map(|version| format!(" at {version}")).unwrap_or_default();
        ("object", Shown::text(format!("{object}{version}")))
    }));
    facts.extend(view.beside_event_id.as_deref().map(|first| ("kept beside", Shown::text(first))));
    facts.push(("received", screen.time(event.received_at_ms)));
    facts.extend(event.created_at_ms.map(|ms| ("happened", screen.time(ms))));
    facts.extend(event.due_at_ms.map(|ms| ("due", screen.time(ms))));
    facts.push(("identity", Shown::text(&event.identity)));
    if event.generation > 0 {
        facts.push(("run again", Shown::text(format!("{} by people", reruns(event.generation)))));
    }
    facts.extend(view.trace_id.as_deref().map(|trace_id| {
        let unrecorded = if view.is_trace_recorded == Some(false) { ", not recorded" } else { "" };
        ("trace", Shown::text(format!("{trace_id}{unrecorded}")))
    }));
    let content = match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => format!("{}; --content shows it", content_in_words(content)),
        (None, Some("role")) => "not for the role of this token".to_owned(),
        (None, _) => "no longer kept".to_owned(),
    };
    facts.push(("content", Shown::text(content)));
    facts.extend(version_fact(version));
    fields(screen, &facts)
}

fn content_in_words(content: &ContentView) -> String {
    let mut words = vec![format!("{} bytes", grouped(content.body_bytes_n))];
    if content.is_encrypted {
        words.push("stored under a key".to_owned());
    }
    if let Some(redacted_n) = content.redacted_n {
        words.push(format!("{} left out before it was stored", plural(redacted_n.into(), "value")));
    }
    if content.is_lossy {
        words.push("not all of it UTF-8".to_owned());
    }
    words.extend(content.unopened.as_ref().map(|why| format!("it does not open: {why}")));
    words.join(", ")
}

/// Headers and body. Received text is indented, so that it cannot look like a line of Hooklatch.
fn content_lines(content: &ContentView, screen: &Screen) -> String {
    let mut lines = vec![screen.paint(Tone::Head, "headers")];
    for (name, values) in &content.headers {
        lines.extend(values.iter().map(|value| format!("  {}: {}", plain::line(name), plain::line(value))));
    }
    lines.push(screen.paint(Tone::Head, "body"));
    lines.extend(content.body.lines().map(|line| format!("  {}", plain::line(line))));
    lines.join("\n")
}

/// A line for each entry, and one for each day that begins.
fn timeline(entries: &[LedgerEntry], screen: &Screen) -> String {
    let (mut lines, mut today) = (Vec::new(), String::new());
    let width = entries.iter().map(|entry| words(&entry.what).0.as_str().len()).max().unwrap_or_default();
    for entry in entries {
        let date = day(entry.at_ms);
        if date != today {
            lines.push(screen.paint(Tone::Head, &format!("{date} (UTC)")));
            today = date;
        }
        let (what, more) = words(&entry.what);
        let room = " ".repeat(width.saturating_sub(what.as_str().len()));
        let painted = what.painted(screen);
        lines.push(format!("{}  {painted}{room}  {}", in_day(entry.at_ms), more.as_str()));
    }
    lines.join("\n")
}

/// What happened, and its details.
fn words(what: &LedgerWhat) -> (Shown, Shown) {
    let (name, tone, more) = match what {
        LedgerWhat::Received { body_bytes_n, secret_position, secret_fingerprint } => {
            let bytes = body_bytes_n
                .map_or_else(|| "bytes no longer kept".to_owned(), |n| format!("{} bytes", grouped(n)));
            let secret = secret_position.map(|position| {
                let name = secret_fingerprint.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
                format!(", secret {position}{name} matched")
            });
            ("received", Tone::Plain, format!("{bytes}{}", secret.unwrap_or_default()))
        }
        LedgerWhat::Latched { digest, identity } => {
            ("latched", Tone::Plain, format!("by {identity}, content {}", short(digest)))
        }
        LedgerWhat::Duplicates { copies_n, first_at_ms } => {
            let since = first_at_ms.map(|ms| format!(", the first at {} {}", day(ms), in_day(ms)));
            let more = format!("{} more, nothing changed{}", grouped(*copies_n), since.unwrap_or_default());
            ("duplicates", Tone::Plain, more)
        }
        LedgerWhat::Conflict { event, digest } => {
            let (id, state) = (&event.event_id, event.state.as_str());
            ("conflict", Tone::Waits, format!("other content {}, kept as {id} ({state})", short(digest)))
        }
        LedgerWhat::Replayed { event } => {
            ("replayed", Tone::Waits, format!("the same signed text as {}", event.event_id))
        }
        LedgerWhat::Handled { state, attempts_n, error } => {
            let times = plural(u64::from(*attempts_n), "dispatch").replace("dispatchs", "dispatches");
            let more = format!("{} after {times}{}", state.as_str(), because(error.as_deref()));
            ("handled", Shown::event_state(*state).tone(), more)
        }
        LedgerWhat::Effect { message } => {
            let (effect, to) = (&message.effect_name, &message.destination);
            let more = format!("{effect} to {to}: message {}, {}", message.message_id, message.state);
            ("effect", Tone::Plain, more)
        }
        LedgerWhat::Attempt { effect_name, attempt, .. } => {
            ("attempt", Shown::attempt(attempt.result).tone(), attempt_in_words(effect_name, attempt))
        }
        LedgerWhat::Decision { decision } => {
            let why = because(Some(&decision.detail));
            ("decision", Tone::Head, format!("{}: {}{why}", decision.actor, decision.action))
        }
    };
    (Shown::text(name).in_tone(tone), Shown::text(more))
}

fn attempt_in_words(effect_name: &str, attempt: &AttemptView) -> String {
    let result = Shown::attempt(attempt.result);
    let status = attempt.http_status.map(|status| format!(" ({status})")).unwrap_or_default();
    let took =
        attempt.finished_at_ms.map(|ms| format!(" in {} ms", ms.saturating_sub(attempt.started_at_ms)));
    format!(
        "{} of {effect_name}: {}{status}{} by {}{}",
        attempt.attempt_n,
        result.as_str(),
        took.unwrap_or_default(),
        attempt.node,
        because(attempt.error.as_deref())
    )
}

fn because(why: Option<&str>) -> String {
    why.filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default()
}

/// The start of a digest, long enough to distinguish it from another.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}

/// Pause between two polls. Milliseconds.
const EVERY_MS: u64 = 2_000;
/// Longest pause after failed polls. Milliseconds.
const EVERY_MS_MAX: u64 = 15_000;
/// Events of a page.
const PAGE_N: &str = "100";
/// Most pages of one poll: what arrived beyond them since the last poll is left out.
const PAGES_N_MAX: usize = 10;
/// Most keys that are remembered besides those of the last poll.
const SEEN_N_MAX: usize = 20_000;

#[derive(Args)]
pub(super) struct Tail {
    /// Name of the provider. Default: all.
    #[arg(long)]
    provider: Option<String>,
    /// Exit after this many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Begin with this many of the newest events, at most 100.
    #[arg(long, value_name = "N", default_value_t = 0)]
    last: usize,
}

impl ServerCommand for Tail {
    /// Runs until it is interrupted, its reader goes away, or enough was shown.
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let mut viewer = Viewer {
            remote,
            provider: self.provider.as_deref(),
            seen: None,
            shown_n: 0,
            most_n: self.count.unwrap_or(u64::MAX),
        };
        remote.api.run(async {
            let mut failures_n = 0_u32;
            loop {
                match viewer.look(self.last).await {
                    Ok(()) if failures_n > 0 => {
                        complain("connected again");
                        failures_n = 0;
                    }
                    Ok(()) => {}
                    Err(error) if is_permanent(&error) => return Err(error.into()),
                    Err(error) => {
                        if failures_n == 0 {
                            complain(format!("{error}; trying again"));
                        }
                        failures_n += 1;
                    }
                }
                if viewer.has_enough() {
                    return Ok(ExitCode::SUCCESS);
                }
                let wait_ms = EVERY_MS.saturating_mul(1 << failures_n.min(3)).min(EVERY_MS_MAX);
                pause(Duration::from_millis(wait_ms)).await;
            }
        })
    }
}

/// True for an error that a retry would not change.
fn is_permanent(error: &ApiError) -> bool {
    match error {
        ApiError::Refused(problem) => problem.status < 500 && problem.status != 429,
        ApiError::Foreign { status, .. } => *status < 500,
        ApiError::Unreached { .. } | ApiError::Lost { .. } => false,
    }
}

/// What was shown, and what is left to show.
struct Viewer<'a> {
    remote: &'a Remote,
    provider: Option<&'a str>,
    /// Provider and event id of the events of earlier polls; `None` before the first one.
    seen: Option<HashSet<(String, String)>>,
    shown_n: u64,
    most_n: u64,
}

impl Viewer<'_> {
    fn has_enough(&self) -> bool {
        self.shown_n >= self.most_n || is_reader_gone()
    }

    /// Shows what arrived since the last poll, the oldest first; at the first one, the newest `last_n`.
    async fn look(&mut self, last_n: usize) -> Result<(), ApiError> {
        let mut fresh = Vec::new();
        let mut found = HashSet::new();
        let mut cursor = None;
        for page_n in 1.. {
            let query = [("provider", self.provider), ("limit", Some(PAGE_N)), ("cursor", cursor.as_deref())];
            let answer = self.remote.api.fetch::<Page<EventView>>(&["events"], &query).await?;
            let raw = answer.raw.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
            let items_n = answer.view.items.len();
            let before_n = fresh.len();
            for (event, raw) in answer.view.items.into_iter().zip(raw) {
                let key = (event.provider.clone(), event.event_id.clone());
                let is_seen = self.seen.as_ref().is_some_and(|seen| seen.contains(&key));
                if found.insert(key) && !is_seen {
                    fresh.push((event, raw));
                }
            }
            // The first poll has missed nothing, and a page with an event that was shown reaches back far enough.
            let is_all_fresh = fresh.len() - before_n == items_n && items_n > 0;
            if self.seen.is_none() || !is_all_fresh || answer.view.next.is_none() {
                break;
            }
            if page_n >= PAGES_N_MAX {
                complain("events were left out: more arrived than are shown");
                break;
            }
            cursor = answer.view.next;
        }
        if self.seen.is_none() {
            fresh.truncate(last_n);
        }
        match &mut self.seen {
            Some(seen) if seen.len() < SEEN_N_MAX => seen.extend(found),
            seen => *seen = Some(found),
        }
        for (event, raw) in fresh.iter().rev() {
            if self.has_enough() {
                break;
            }
            self.shown_n += 1;
            if self.remote.screen.is_json { say(with_times(raw.clone())) } else { self.line(event) }
        }
        Ok(())
    }

    /// One line, without alignment: the next one is not known yet.
    fn line(&self, event: &EventView) {
        let screen = &self.remote.screen;
        let mut fields = vec![in_day(event.received_at_ms)];
        fields.extend(event.cells(screen).iter().skip(1).map(|cell| cell.painted(screen)));
        if event.error.is_none() {
            fields.pop();
        }
        if event.attempts_n > 1 {
            fields.push(format!("({} dispatches)", grouped(event.attempts_n.into())));
        }
        screen.print(&fields.join("  "));
    }
}
