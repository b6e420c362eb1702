//! `destinations`: where messages go, what waits for each, and whether it is paused.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::api_client::ApiAnswer;
use super::desk::{Desk, ListRow};
use super::output::{Column, Screen, Shown, Tone, fields, grouped, told};
use super::pause::{PauseCommand, pause_facts};
use super::reach::ReachArgs;
use crate::api::{BacklogCount, CallTimesView, DestinationView, PolicyView};
use crate::load::Kinds;
use crate::times::length_in_words;

#[derive(Args)]
pub(super) struct DestinationsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    command: DestinationsCommand,
}

#[derive(Subcommand)]
enum DestinationsCommand {
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

/// Runs `hooklatch destinations …`.
pub(super) fn destinations(
    args: &DestinationsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    match &args.command {
        DestinationsCommand::List => desk.whole_list::<DestinationView>(&["destinations"], &[])?,
        DestinationsCommand::Show { name } => {
            let found: ApiAnswer<DestinationView> = desk.api.get(&["destinations", name], &[])?;
            desk.show(&found, |view| in_full(view, &desk.screen, found.etag.as_deref()));
        }
        DestinationsCommand::Switch(switch) => switch.run(&desk, "destinations")?,
    }
    Ok(ExitCode::SUCCESS)
}

impl ListRow for DestinationView {
    const NOUN: &'static str = "destination";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("destination"),
        Column::Whole("kind"),
        Column::Whole("state"),
        Column::Whole("breaker"),
        Column::Loose("waiting"),
        Column::Whole("oldest due (UTC)"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(&self.name),
            Shown::text(&self.kind),
            state(self),
            breaker(self.breaker.as_deref()),
            Shown::text(backlog(self)),
            Shown::or_dash(self.oldest_due_at_ms.map(|ms| told(ms, screen.now_ms))),
        ]
    }
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
    let counts = view.backlog.iter().map(of);
    let counts = counts.collect::<Vec<_>>().join(", ");
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

fn in_full(view: &DestinationView, screen: &Screen, version: Option<&str>) -> String {
    let time = |ms: i64| Shown::text(told(ms, screen.now_ms));
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
    facts.extend(view.oldest_due_at_ms.map(|ms| ("oldest due", time(ms))));
    facts.extend(
        version.map(|version| ("version", Shown::text(version.trim_matches('"')).in_tone(Tone::Faint))),
    );
    fields(screen, &facts)
}
