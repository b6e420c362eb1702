//! `tail`: events as they are received. It fetches the newest page of the list every two seconds, and leaves out events
//! that it has shown, by identity: with several nodes an event can appear below one that was shown.

use std::collections::HashSet;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::api_client::{ApiError, pause};
use super::output::with_times;
use super::remote::{ListRow, Remote, ServerCommand};
use super::shared::{complain, is_reader_gone, say};
use hooklatch_contract::{EventView, Page};
use hooklatch_core::figures::grouped;
use hooklatch_core::times::in_day;

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
    /// Name of the provider; all by default.
    #[arg(long)]
    provider: Option<String>,
    /// End after so many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Show the newest events first, so many of the last 100.
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
