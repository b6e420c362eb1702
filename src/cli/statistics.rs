//! `statistics`: events per minute and provider.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use super::api_client::ApiAnswer;
use super::desk::{Desk, ListRow, rows};
use super::output::{Column, Screen, Shown, Tone, grouped, told};
use super::reach::ReachArgs;
use super::shared::complain;
use crate::api::{MinuteView, StatisticsView};
use crate::load::Kinds;

#[derive(Args)]
pub(super) struct StatisticsArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Name of the provider; all by default.
    #[arg(long)]
    provider: Option<String>,
    /// Minutes to look back, 1 to 1,440.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_440))]
    minutes: u32,
}

/// Runs `hooklatch statistics`: events per minute.
pub(super) fn statistics(
    args: &StatisticsArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let minutes = args.minutes.to_string();
    let query = [("provider", args.provider.as_deref()), ("minutes_n", Some(minutes.as_str()))];
    let found: ApiAnswer<StatisticsView> = desk.api.get(&["statistics"], &query)?;
    desk.show(&found, |view| rows::<MinuteView>(&desk.screen, &view.minutes, true));
    if !desk.screen.is_json {
        if let Some(from_ms) = found.view.counted_from_ms {
            let from = told(from_ms, desk.screen.now_ms);
            complain(format!("there are too many events to count them all: whole minutes begin at {from}"));
        } else if found.view.minutes.is_empty() {
            complain(format!("no events in the last {minutes} minutes"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl ListRow for MinuteView {
    const NOUN: &'static str = "minute";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("minute (UTC)"),
        Column::Whole("provider"),
        Column::Whole("events"),
        Column::Whole("waiting now"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        let tone = if self.waiting_n > 0 { Tone::Waits } else { Tone::Faint };
        vec![
            Shown::text(told(self.at_ms, screen.now_ms)),
            Shown::text(&self.provider),
            if self.is_cut {
                Shown::text(grouped(self.events_n) + "+")
            } else {
                Shown::number(self.events_n)
            },
            Shown::number(self.waiting_n).in_tone(tone),
        ]
    }
}
