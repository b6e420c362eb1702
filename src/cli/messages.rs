//! `messages`: calls that are pending or were made, and operators' decisions about those that are held or dead;
//! `destinations` and `lanes`, which they go to and wait in; and `pause` and `resume`, which providers have too.

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use serde_json::json;

use super::operations::{ActArgs, Filter, time};
use super::output::Column::{Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields};
use super::remote::{
    ListColumn, ListRow, PagingArgs, Remote, ServerCommand, VersionArgs, WhyArgs, rows, version_fact,
};
use super::shared::Usage;
use hooklatch_contract::{
    AttemptView, BacklogCount, CallTimesView, DestinationView, LaneView, MessageAct, MessageDetail,
    MessageView, PauseAct, PauseOrder, PauseView, PolicyView, Risk,
};
use hooklatch_core::figures::grouped;
use hooklatch_core::times::{length_in_words, parse_end};
use hooklatch_core::types::MessageState;

/// Filter for messages.
#[derive(Args)]
pub(super) struct FilterArgs {
    /// State of the message.
    #[arg(long, value_parser = PossibleValuesParser::new(MessageState::ALL.iter().map(|one| one.as_str())))]
    state: Option<String>,
    /// Name of the destination.
    #[arg(long)]
    destination: Option<String>,
    /// Name of the provider.
    #[arg(long)]
    provider: Option<String>,
    /// Key of the lane.
    #[arg(long)]
    lane: Option<String>,
    /// Created before this time: 2026-11-22T14:02:11Z, 2026-11-22, or 15m, 2h, 3d ago.
    #[arg(long, value_name = "TIME")]
    created_before: Option<String>,
}

impl FilterArgs {
    fn filter(&self, now_ms: i64) -> Result<Filter, Usage> {
        Ok(Filter(vec![
            ("state", json!(self.state)),
            ("destination", json!(self.destination)),
            ("provider", json!(self.provider)),
            ("lane", json!(self.lane)),
            ("created_before_ms", time("created-before", self.created_before.as_ref(), now_ms)?),
        ]))
    }
}

#[derive(Subcommand)]
pub(super) enum Messages {
    /// List messages, newest first.
    List {
        #[command(flatten)]
        which: FilterArgs,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Show one message, its attempts and decisions.
    Show {
        /// Message id.
        message_id: String,
    },
    /// Send held or dead messages again under the same key.
    Send(DecideArgs),
    /// Mark messages as done: the effect has happened.
    Done(DecideArgs),
    /// Discard messages: they are never sent.
    Discard(DecideArgs),
}

#[derive(Args)]
pub(super) struct DecideArgs {
    /// Message id. Without it: all messages that the filter matches.
    message_id: Option<String>,
    #[command(flatten)]
    which: FilterArgs,
    #[command(flatten)]
    act: ActArgs,
}

impl ServerCommand for Messages {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let now_ms = remote.screen.now_ms;
        let (args, act) = match self {
            Self::List { which, paging } => {
                return which
                    .filter(now_ms)?
                    .with_query(|query| remote.list::<MessageView>(&["messages"], query, Some(paging)));
            }
            Self::Show { message_id } => return remote.show(&["messages", message_id], &[], in_full),
            Self::Send(args) => (args, ("send", "will be sent")),
            Self::Done(args) => (args, ("done", "done")),
            Self::Discard(args) => (args, ("discard", "discarded")),
        };
        let nouns: Vec<&str> = std::iter::once("messages").chain(args.message_id.as_deref()).collect();
        args.act.act::<MessageView>(remote, act, &nouns, &args.which.filter(now_ms)?)
    }
}

impl ListRow for MessageView {
    const NOUN: &'static str = "message";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("written (UTC)"), |one, screen| screen.time(one.created_at_ms)),
        (Id("message id"), |one, _| Shown::text(one.message_id.to_string())),
        (Whole("destination"), |one, _| Shown::text(&one.destination)),
        (Id("event id"), |one, _| Shown::text(&one.event_id)),
        (Whole("state"), |one, _| Shown::message_state(one.state)),
        (Whole("attempts"), |one, _| Shown::number(one.attempts_n.into())),
        (Loose("what it means"), |one, _| {
            Shown::or_dash(one.judgement.as_ref().map(|judged| &judged.headline))
        }),
        (Loose("last error"), |one, _| Shown::or_dash(one.last_error.as_deref())),
    ];
}

impl ListRow for AttemptView {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("attempt"), |one, _| Shown::number(one.attempt_n.into())),
        (Whole("began (UTC)"), |one, screen| screen.time(one.started_at_ms)),
        (Whole("took ms"), |one, _| {
            let took_ms = one.finished_at_ms.map(|ms| ms.saturating_sub(one.started_at_ms));
            Shown::or_dash(took_ms.map(|ms| ms.to_string()))
        }),
        (Whole("result"), |one, _| Shown::attempt(one.result)),
        (Whole("status"), |one, _| Shown::or_dash(one.http_status.map(|status| status.to_string()))),
        (Whole("node"), |one, _| Shown::text(&one.node)),
        (Loose("error"), |one, _| Shown::or_dash(one.error.as_deref())),
        (Loose("answer"), |one, _| Shown::or_dash(one.response.as_deref())),
    ];
}

/// A message with all its facts.
fn in_full(view: &MessageDetail, screen: &Screen, version: Option<&str>) -> String {
    let mut parts = vec![facts(view, screen, version)];
    if !view.attempts.is_empty() {
        parts.push(rows(screen, &view.attempts, true));
    }
    parts.extend(view.no_attempts().map(str::to_owned));
    parts.extend(view.damaged.iter().map(|row| Shown::text(row.sentence()).as_str().to_owned()));
    if !view.decisions.is_empty() {
        parts.push(rows(screen, &view.decisions, true));
    }
    parts.join("\n\n")
}

fn facts(view: &MessageDetail, screen: &Screen, version: Option<&str>) -> String {
    let message = &view.message;
    let event = format!("{} {} ({})", message.provider, message.event_id, message.event_type);
    let mut facts = vec![
        ("message", Shown::text(message.message_id.to_string())),
        ("event", Shown::text(event)),
        ("effect", Shown::text(&message.effect_name)),
        ("destination", Shown::text(&message.destination)),
        ("state", Shown::message_state(message.state)),
    ];
    if let Some(judgement) = &message.judgement {
        facts.push(("means", Shown::text(&judgement.headline)));
        for one in &judgement.acts {
            let name = match one.act {
                MessageAct::Done => "if done",
                MessageAct::Send => "if sent",
                MessageAct::Discard => "if discarded",
            };
            let tone = if one.risk == Risk::None { Tone::Good } else { Tone::Bad };
            let sentence = format!("{}. {}", one.risk.in_words(), one.sentence);
            facts.push((name, Shown::text(sentence).in_tone(tone)));
        }
    }
    facts.extend(message.lane.as_deref().map(|lane| ("lane", Shown::text(lane))));
    facts.extend(message.last_error.as_deref().map(|error| ("error", Shown::text(error))));
    facts.push(("key", Shown::text(&message.idempotency_key)));
    facts.push(("written", screen.time(message.created_at_ms)));
    let name = match message.state {
        MessageState::Ready => "due",
        MessageState::Leased => "lease until",
        MessageState::Waiting => "waiting since",
        MessageState::Held => "held since",
        MessageState::Dead => "dead since",
        MessageState::Done | MessageState::Discarded => "finished",
    };
    facts.push((name, screen.time(message.finished_at_ms.unwrap_or(message.visible_at_ms))));
    facts.extend(view.policy.iter().map(|policy| ("unknown", Shown::text(rule(policy)))));
    facts.extend(view.key_known_until_ms().map(|ms| ("key known until", screen.time(ms))));
    facts.extend(version_fact(version));
    fields(screen, &facts)
}

/// `destinations`: where messages go, what waits for each, and whether it is paused.
#[derive(Subcommand)]
pub(super) enum Destinations {
    /// List destinations and their waiting messages.
    List,
    /// Show one destination: breaker, pause, waiting messages.
    Show {
        /// Name of the destination.
        name: String,
    },
    #[command(flatten)]
    Switch(PauseCommand),
}

impl ServerCommand for Destinations {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        match self {
            Self::List => remote.list::<DestinationView>(&["destinations"], &[], None),
            Self::Show { name } => remote.show(&["destinations", name], &[], destination),
            Self::Switch(switch) => switch.run(remote, "destinations"),
        }
    }
}

impl ListRow for DestinationView {
    const NOUN: &'static str = "destination";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("destination"), |one, _| Shown::text(&one.name)),
        (Whole("kind"), |one, _| Shown::text(&one.kind)),
        (Whole("state"), |one, _| state(one)),
        (Whole("breaker"), |one, _| breaker(one.breaker.as_deref())),
        (Loose("waiting"), |one, _| Shown::text(backlog(one))),
        (Whole("oldest due (UTC)"), |one, screen| screen.time_or_dash(one.oldest_due_at_ms)),
    ];
}

fn state(view: &DestinationView) -> Shown {
    match (&view.pause, view.is_configured) {
        (_, false) => Shown::text("not configured").in_tone(Tone::Bad),
        (Some(_), true) => Shown::text("paused").in_tone(Tone::Waits),
        (None, true) => Shown::text("running").in_tone(Tone::Good),
    }
}

fn breaker(word: Option<&str>) -> Shown {
    let tone = match word {
        Some("open") => Tone::Bad,
        Some("half_open") => Tone::Waits,
        _ => Tone::Plain,
    };
    Shown::or_dash(word).in_tone(tone)
}

/// `3 ready, 1 held`.
fn backlog(view: &DestinationView) -> String {
    let of = |count: &BacklogCount| {
        let more = if count.is_more { "+" } else { "" };
        format!("{}{more} {}", grouped(count.messages_n), count.state)
    };
    let counts = view.backlog.iter().map(of).collect::<Vec<_>>().join(", ");
    if counts.is_empty() { "nothing".to_owned() } else { counts }
}

/// `12 ms at the median, 40 ms at 95 %, of 256`.
fn call_times(times: CallTimesView) -> String {
    let [p50, p95, calls] = [times.p50_ms, times.p95_ms, times.calls_n].map(|n| grouped(n.into()));
    format!("{p50} ms at the median, {p95} ms at 95 %, of {calls}")
}

/// `hold: it neither honours keys …`.
pub(super) fn rule(policy: &PolicyView) -> String {
    format!("{}: {}", policy.unknown, policy.unknown_in_words())
}

/// A destination in full.
fn destination(view: &DestinationView, screen: &Screen, version: Option<&str>) -> String {
    let mut facts = vec![
        ("destination", Shown::text(&view.name)),
        ("kind", Shown::text(&view.kind)),
        ("state", state(view)),
    ];
    facts.extend(pause_facts(view.pause.as_ref(), screen));
    if let Some(policy) = &view.policy {
        facts.extend(policy.host.as_deref().map(|host| ("address", Shown::text(host))));
        facts.push(("unknown", Shown::text(rule(policy))));
        facts.push(("key known for", Shown::text(policy.key_valid_for_in_words())));
        facts.push(("timeout", Shown::text(length_in_words(policy.timeout_ms))));
        facts.push(("retries", Shown::text(policy.retry.in_words())));
    }
    facts.push(("breaker", breaker(view.breaker.as_deref())));
    facts.extend(view.concurrency_n.map(|n| ("at once", Shown::text(grouped(n.into())))));
    facts.extend(view.rate_per_s.map(|rate| ("a second", Shown::text(rate.to_string()))));
    facts.extend(view.call_times.map(|times| ("calls took", Shown::text(call_times(times)))));
    facts.push(("waiting", Shown::text(backlog(view))));
    facts.extend(view.oldest_due_at_ms.map(|ms| ("oldest due", screen.time(ms))));
    facts.extend(version_fact(version));
    fields(screen, &facts)
}

#[derive(Subcommand)]
pub(super) enum PauseCommand {
    /// Pause on all nodes. Nothing is sent to a paused destination; events of a paused provider are answered 200 and
    /// stored, but not dispatched. Running calls complete.
    Pause {
        #[command(flatten)]
        switch: SwitchArgs,
        /// Resume automatically at this time: 2026-11-22T14:02:11Z, or 30m, 4h, 2d from now.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Resume. What waited goes first.
    Resume(SwitchArgs),
}

#[derive(Args)]
pub(super) struct SwitchArgs {
    /// Name of the destination or provider.
    name: String,
    #[command(flatten)]
    why: WhyArgs,
    #[command(flatten)]
    version: VersionArgs,
}

impl PauseCommand {
    /// Orders it, of one of `nouns`: `destinations` or `providers`.
    pub(super) fn run(&self, remote: &Remote, nouns: &str) -> anyhow::Result<ExitCode> {
        let (act, switch, until, done) = match self {
            Self::Pause { switch, until } => (PauseAct::Pause, switch, until.as_deref(), "paused"),
            Self::Resume(switch) => (PauseAct::Resume, switch, None, "resumed"),
        };
        let until_ms = until.map(|text| parse_end(text, remote.screen.now_ms)).transpose();
        let until_ms = until_ms.map_err(|why| Usage(format!("--until: {why}")))?;
        let order = PauseOrder { act, reason: switch.why.reason.clone(), until_ms };
        let path = [nouns, &switch.name, "decide"];
        remote.decide((&path, &switch.name), &order, (&switch.why, Some(&switch.version)), done)
    }
}

/// By whom, when, until when and why something is paused.
pub(super) fn pause_facts(pause: Option<&PauseView>, screen: &Screen) -> Vec<(&'static str, Shown)> {
    let Some(pause) = pause else { return Vec::new() };
    let mut facts =
        vec![("paused by", Shown::text(&pause.actor)), ("paused", screen.time(pause.paused_at_ms))];
    facts.extend(pause.until_ms.map(|ms| ("until", screen.time(ms))));
    facts.push(("reason", Shown::text(&pause.reason)));
    facts
}

/// `lanes`: messages that go one after the other.
#[derive(Subcommand)]
pub(super) enum Lanes {
    /// List lanes with open messages: head, depth and what blocks them.
    List {
        /// Name of the destination.
        #[arg(long)]
        destination: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
}

impl ServerCommand for Lanes {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let Self::List { destination, paging } = self;
        remote.list::<LaneView>(&["lanes"], &[("destination", destination.as_deref())], Some(paging))
    }
}

impl ListRow for LaneView {
    const NOUN: &'static str = "lane";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("destination"), |one, _| Shown::text(&one.destination)),
        (Whole("lane"), |one, _| Shown::text(&one.lane)),
        (Whole("depth"), |one, _| Shown::number(one.depth_n)),
        (Whole("blocked by"), |one, _| Shown::or_dash(one.blocked_by.as_deref()).in_tone(Tone::Waits)),
        (Whole("head since (UTC)"), |one, screen| screen.time(one.since_ms)),
        (Id("head"), |one, _| Shown::text(one.head.message_id.to_string())),
        (Whole("state"), |one, _| Shown::message_state(one.head.state)),
        (Loose("what it means"), |one, _| {
            Shown::or_dash(one.head.judgement.as_ref().map(|judged| &judged.headline))
        }),
    ];
}
