//! The commands `destinations`, `lanes`, `rejected`, `statistics` and `search`, and `pause` and `resume`, which
//! providers have too.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::output::Column::{self, Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields, table};
use super::remote::{ListColumn, ListRow, PagingArgs, Remote, ServerCommand, VersionArgs, WhyArgs};
use super::remote::{rows, version_fact};
use super::shared::{Ending, Usage, complain};
use hooklatch_contract::{
    BacklogCount, BacklogView, CallTimesView, DestinationView, EventView, LaneView, MessageView, MinuteView,
    Page, PauseAct, PauseOrder, PauseView, PolicyView, RejectedGroup, RejectedView, SearchHit, SearchView,
    StatisticsView, UnknownPathView,
};
use hooklatch_core::figures::grouped;
use hooklatch_core::times::{format_moment, length_in_words, parse_end};

/// `destinations`: where messages go, what waits for each, and whether it is paused.
#[derive(Subcommand)]
pub(super) enum Destinations {
    /// List the destinations, with what waits for each.
    List,
    /// Show one destination: its breaker, its pause, what waits.
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
    /// Stop what follows, on all nodes, until it is resumed: nothing is sent to a paused destination, and events of a
    /// paused provider are answered 200 and kept, but not dispatched. What is under way ends as it does.
    Pause {
        #[command(flatten)]
        switch: SwitchArgs,
        /// When it resumes by itself: 2026-11-22T14:02:11Z, or 30m, 4h, 2d from now. Without it, only `resume` does that.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Resume it: what has waited goes first.
    Resume(SwitchArgs),
}

#[derive(Args)]
pub(super) struct SwitchArgs {
    /// Name of the destination, or of the provider.
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
    /// List the lanes that have open messages: head, depth, and why it does not move.
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

/// `rejected`: requests that were refused, and why.
#[derive(Subcommand)]
pub(super) enum Rejected {
    /// List the newest refused requests, and why each was refused.
    ///
    /// Step `request`: refused before it was verified, because of its size, its speed or its method. Step `address`: not
    /// in `allow_from`. All others: its signature was not valid.
    List {
        /// Name of the provider that they were for.
        #[arg(long)]
        provider: Option<String>,
        /// Reason for which they were refused, such as `mismatch`.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        paging: PagingArgs,
    },
    /// Count the refused requests that are kept, by provider, reason and client: the 50 largest groups.
    Groups,
    /// List paths that no provider has and that were posted to, with the provider that was probably meant.
    ///
    /// Each node keeps 32 of them in memory, since its start.
    Paths,
}

impl ServerCommand for Rejected {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        match self {
            Self::List { provider, reason, paging } => {
                let query = [("provider", provider.as_deref()), ("reason", reason.as_deref())];
                remote.list::<RejectedView>(&["rejected"], &query, Some(paging))
            }
            Self::Groups => {
                remote.show(&["rejected", "groups"], &[], |page: &Page<RejectedGroup>, screen, _| {
                    rows_or(screen, &page.items, "no refused request is kept")
                })
            }
            Self::Paths => remote.show(&["backlog"], &[], |view: &BacklogView, screen, _| {
                let none = "no path without a provider was posted to since this node started";
                rows_or(screen, &view.unknown_paths, none)
            }),
        }
    }
}

fn rows_or<T: ListRow>(screen: &Screen, items: &[T], none: &str) -> String {
    if items.is_empty() { none.to_owned() } else { rows(screen, items, true) }
}

fn plain_or_dash(text: Option<&String>) -> Shown {
    Shown::text(text.map_or("-", String::as_str))
}

impl ListRow for RejectedView {
    const NOUN: &'static str = "refused request";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("received (UTC)"), |one, screen| screen.time(one.received_at_ms)),
        (Whole("provider"), |one, _| Shown::text(&one.provider)),
        (Whole("step"), |one, _| Shown::text(&one.step)),
        (Whole("reason"), |one, _| Shown::text(&one.reason)),
        (Id("client"), |one, _| plain_or_dash(one.client_address.as_ref())),
        (Loose("detail"), |one, _| Shown::text(&one.detail)),
    ];
}

impl ListRow for RejectedGroup {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("requests"), |one, _| Shown::text(one.requests_n.to_string())),
        (Whole("last (UTC)"), |one, screen| screen.time(one.last_at_ms)),
        (Whole("provider"), |one, _| Shown::text(&one.provider)),
        (Id("client"), |one, _| plain_or_dash(one.client_address.as_ref())),
        (Loose("reason"), |one, _| Shown::text(&one.reason)),
    ];
}

impl ListRow for UnknownPathView {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("last (UTC)"), |one, screen| screen.time(one.last_at_ms)),
        (Whole("requests"), |one, _| Shown::text(one.requests_n.to_string())),
        (Id("client"), |one, _| plain_or_dash(one.client_address.as_ref())),
        (Whole("did it mean"), |one, _| plain_or_dash(one.nearest_provider.as_ref())),
        (Whole("signed like"), |one, _| plain_or_dash(one.signature_of_kind.as_ref())),
        (Loose("path"), |one, _| Shown::text(&one.path)),
    ];
}

/// `statistics`: events per minute and provider.
#[derive(Args)]
pub(super) struct Statistics {
    /// Name of the provider; all by default.
    #[arg(long)]
    provider: Option<String>,
    /// Minutes to look back, 1 to 1,440.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_440))]
    minutes: u32,
}

impl ServerCommand for Statistics {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let minutes = self.minutes.to_string();
        let query = [("provider", self.provider.as_deref()), ("minutes_n", Some(minutes.as_str()))];
        let found = remote.api.get::<StatisticsView>(&["statistics"], &query)?;
        remote.print(&found, |view, screen| rows(screen, &view.minutes, true));
        if !remote.screen.is_json {
            if let Some(from_ms) = found.view.counted_from_ms {
                let from = format_moment(from_ms, remote.screen.now_ms);
                complain(format!(
                    "there are too many events to count them all: whole minutes begin at {from}"
                ));
            } else if found.view.minutes.is_empty() {
                complain(format!("no events in the last {minutes} minutes"));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl ListRow for MinuteView {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("minute (UTC)"), |one, screen| screen.time(one.at_ms)),
        (Whole("provider"), |one, _| Shown::text(&one.provider)),
        (Whole("events"), |one, _| {
            if one.is_cut { Shown::text(grouped(one.events_n) + "+") } else { Shown::number(one.events_n) }
        }),
        (Whole("waiting now"), |one, _| {
            Shown::number(one.waiting_n).in_tone(if one.waiting_n > 0 { Tone::Waits } else { Tone::Faint })
        }),
    ];
}

/// `search ID`: whatever an id leads to, and why it leads nowhere; 3 when nothing is found.
#[derive(Args)]
pub(super) struct Search {
    /// Id of an event or inside one (payment, order, invoice; six characters are enough), of a message or object, an
    /// idempotency key, the name of an effect, or the address of a page that ends with an id.
    id: String,
}

impl ServerCommand for Search {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let found = remote.api.get::<SearchView>(&["search"], &[("id", Some(&self.id))])?;
        remote.print(&found, hits);
        Ok(if found.view.found.is_empty() { Ending::NotFound } else { Ending::Done }.code())
    }
}

const HIT_COLUMNS: [Column; 7] = [
    Whole("it is"),
    Whole("time (UTC)"),
    Whole("provider"),
    Whole("of"),
    Whole("state"),
    Whole("calls"),
    Loose("what"),
];

fn hits(view: &SearchView, screen: &Screen) -> String {
    let mut parts = if view.found.is_empty() {
        [format!("nothing found for {}", view.query), view.headline.clone()]
            .iter()
            .map(|line| Shown::text(line).as_str().to_owned())
            .collect()
    } else {
        let rows: Vec<Vec<Shown>> = view.found.iter().map(|hit| hit_cells(hit, screen)).collect();
        vec![table(screen, &HIT_COLUMNS, &rows, true)]
    };
    parts.extend(view.notes.iter().map(|note| Shown::text(note).as_str().to_owned()));
    parts.join("\n")
}

fn hit_cells(hit: &SearchHit, screen: &Screen) -> Vec<Shown> {
    match hit {
        SearchHit::EventId { event } => event_hit("an event", event, screen),
        SearchHit::SearchId { event } => event_hit("inside an event", event, screen),
        SearchHit::Object { event } => event_hit("an object", event, screen),
        SearchHit::MessageId { message } => message_hit("a message", message, screen),
        SearchHit::IdempotencyKey { message } => message_hit("a key", message, screen),
        SearchHit::EffectName { message } => message_hit("an effect", message, screen),
        SearchHit::Rejected { rejected } => vec![
            Shown::text("in a refusal"),
            screen.time(rejected.received_at_ms),
            Shown::text(&rejected.provider),
            Shown::text(&rejected.rejection_id),
            Shown::text(&rejected.step),
            Shown::or_dash(None::<&str>),
            Shown::text(&rejected.detail),
        ],
    }
}

fn event_hit(what: &str, event: &EventView, screen: &Screen) -> Vec<Shown> {
    let error = event.error.as_ref().or(event.delivery.error.as_ref()).map_or("", String::as_str);
    let parts = event.parts.join(" · ");
    let words = [event.event_type.as_str(), &parts, error];
    let words = words.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ");
    vec![
        Shown::text(what),
        screen.time(event.received_at_ms),
        Shown::text(&event.provider),
        Shown::text(&event.event_id),
        Shown::event_state(event.state),
        Shown::delivery(&event.delivery),
        Shown::text(words),
    ]
}

fn message_hit(what: &str, message: &MessageView, screen: &Screen) -> Vec<Shown> {
    vec![
        Shown::text(what),
        screen.time(message.created_at_ms),
        Shown::text(&message.provider),
        Shown::text(message.message_id.to_string()),
        Shown::message_state(message.state),
        Shown::or_dash(None::<&str>),
        Shown::text(format!("{} to {} of {}", message.effect_name, message.destination, message.event_id)),
    ]
}
