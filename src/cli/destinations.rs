//! `destinations`: where messages go, what waits for each, and whether it is paused.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Subcommand};

use super::api_client::ApiAnswer;
use super::decide::{VersionArgs, WhyArgs};
use super::desk::{Desk, ListRow};
use super::output::{Column, Screen, Shown, Tone, fields, grouped, parse_end, told};
use super::reach::ReachArgs;
use super::shared::Usage;
use crate::api::{
    BacklogCount, CallTimesView, DestinationAct, DestinationOrder, DestinationView, PolicyView,
};
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
    /// Take nothing for it, on any node, until it is resumed; calls under way end as they do.
    Pause {
        #[command(flatten)]
        switch: SwitchArgs,
        /// When it resumes by itself: 2026-11-22T14:02:11Z, or 30m, 4h, 2d from now. Without it, only `resume` does that.
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
    /// Resume a paused destination.
    Resume(SwitchArgs),
}

#[derive(Args)]
struct SwitchArgs {
    /// Name of the destination.
    name: String,
    #[command(flatten)]
    why: WhyArgs,
    #[command(flatten)]
    version: VersionArgs,
}

/// Runs `hooklatch destinations …`.
pub(super) fn destinations(
    args: &DestinationsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let (act, switch, until, done) = match &args.command {
        DestinationsCommand::List => {
            desk.whole_list::<DestinationView>(&["destinations"], &[])?;
            return Ok(ExitCode::SUCCESS);
        }
        DestinationsCommand::Show { name } => {
            let found: ApiAnswer<DestinationView> = desk.api.get(&["destinations", name], &[])?;
            desk.show(&found, |view| in_full(view, &desk.screen, found.etag.as_deref()));
            return Ok(ExitCode::SUCCESS);
        }
        DestinationsCommand::Pause { switch, until } => {
            (DestinationAct::Pause, switch, until.as_deref(), "paused")
        }
        DestinationsCommand::Resume(switch) => (DestinationAct::Resume, switch, None, "resumed"),
    };
    let path = ["destinations", &switch.name, "decide"];
    let version = switch.version.header();
    let until_ms = until.map(|text| parse_end(text, desk.screen.now_ms)).transpose();
    let until_ms = until_ms.map_err(|why| Usage(format!("--until: {why}")))?;
    let order = DestinationOrder { act, reason: switch.why.reason.clone(), until_ms };
    let answer =
        desk.order(&path, &order, &switch.why, version.as_deref()).with_context(|| switch.name.clone())?;
    desk.tell_done(&answer, &switch.name, done);
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
    if let Some(pause) = &view.pause {
        facts.push(("paused by", Shown::text(&pause.actor)));
        facts.push(("paused", time(pause.paused_at_ms)));
        facts.extend(pause.until_ms.map(|ms| ("until", time(ms))));
        facts.push(("reason", Shown::text(&pause.reason)));
    }
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
