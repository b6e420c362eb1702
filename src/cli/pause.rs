//! `pause` and `resume`, of destinations and of providers.

use anyhow::Context;
use clap::{Args, Subcommand};

use super::decide::{VersionArgs, WhyArgs};
use super::desk::Desk;
use super::output::{Screen, Shown, parse_end, told};
use super::shared::Usage;
use crate::api::{PauseAct, PauseOrder, PauseView};

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
    pub(super) fn run(&self, desk: &Desk, nouns: &str) -> anyhow::Result<()> {
        let (act, switch, until, done) = match self {
            Self::Pause { switch, until } => (PauseAct::Pause, switch, until.as_deref(), "paused"),
            Self::Resume(switch) => (PauseAct::Resume, switch, None, "resumed"),
        };
        let version = switch.version.header();
        let until_ms = until.map(|text| parse_end(text, desk.screen.now_ms)).transpose();
        let until_ms = until_ms.map_err(|why| Usage(format!("--until: {why}")))?;
        let order = PauseOrder { act, reason: switch.why.reason.clone(), until_ms };
        let path = [nouns, &switch.name, "decide"];
        let answer = desk
            .order(&path, &order, &switch.why, version.as_deref())
            .with_context(|| switch.name.clone())?;
        desk.tell_done(&answer, &switch.name, done);
        Ok(())
    }
}

/// By whom, when, until when and why something is paused.
pub(super) fn pause_facts(pause: Option<&PauseView>, screen: &Screen) -> Vec<(&'static str, Shown)> {
    let Some(pause) = pause else { return Vec::new() };
    let time = |ms: i64| Shown::text(told(ms, screen.now_ms));
    let mut facts = vec![("paused by", Shown::text(&pause.actor)), ("paused", time(pause.paused_at_ms))];
    facts.extend(pause.until_ms.map(|ms| ("until", time(ms))));
    facts.push(("reason", Shown::text(&pause.reason)));
    facts
}
