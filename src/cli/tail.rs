//! `tail`: events as they come in. A lost connection is taken up again behind the last event that was shown.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::api_client::{ApiError, SseEvent, SseReader, patience};
use super::desk::{Desk, ListRow};
use super::output::{Shown, grouped, in_day, plural, with_times};
use super::reach::ReachArgs;
use super::shared::{complain, is_reader_gone, say};
use crate::api::{EventView, TailView};
use crate::load::Kinds;

/// Time without a byte after which a connection is no connection: the server says something every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// Wait before the next connection, unless the server says another. Milliseconds.
const RETRY_MS: u64 = 1_000;
/// Longest wait before the next connection. Milliseconds.
const RETRY_MS_MAX: u64 = 15_000;

#[derive(Args)]
pub(super) struct TailArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Name of the provider; all by default.
    #[arg(long)]
    provider: Option<String>,
    /// End after so many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Begin behind this event: the id of an earlier line with --json.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

/// Runs `hooklatch tail` until it is interrupted, its reader goes away, or enough was shown.
pub(super) fn tail(args: &TailArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(&args.reach, file, kinds)?;
    let mut viewer = Viewer { desk: &desk, shown_n: 0, most_n: args.count.unwrap_or(u64::MAX) };
    let mut retry_ms = RETRY_MS;
    let mut last_id = args.after.clone();
    desk.api.run(async {
        let mut failures_n = 0_u32;
        while !viewer.has_enough() {
            let query = [("provider", args.provider.as_deref())];
            let ended = match desk.api.stream(&["tail"], &query, last_id.as_deref()).await {
                Ok(response) => {
                    if failures_n > 0 {
                        complain("connected again");
                    }
                    failures_n = 0;
                    let mut reader = SseReader::behind(last_id.clone());
                    let why = viewer.watch(response, &mut reader, &mut last_id).await;
                    retry_ms = reader.retry_ms.unwrap_or(retry_ms);
                    why
                }
                Err(error) if is_for_good(&error) => return Err(error.into()),
                Err(error) => error.to_string(),
            };
            if viewer.has_enough() {
                break;
            }
            if failures_n == 0 {
                complain(format!("{ended}; connecting again"));
            }
            let wait_ms = retry_ms.saturating_mul(1 << failures_n.min(4));
            failures_n += 1;
            patience(Duration::from_millis(wait_ms.min(RETRY_MS_MAX))).await;
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// True for what another try would not change.
fn is_for_good(error: &ApiError) -> bool {
    match error {
        ApiError::Refused(problem) => problem.status < 500 && problem.status != 429,
        ApiError::Foreign { status, .. } => *status < 500,
        ApiError::Unreached { .. } | ApiError::Lost { .. } => false,
    }
}

/// What is shown, and how much of it.
struct Viewer<'a> {
    desk: &'a Desk,
    shown_n: u64,
    most_n: u64,
}

impl Viewer<'_> {
    fn has_enough(&self) -> bool {
        self.shown_n >= self.most_n || is_reader_gone()
    }

    /// Shows what one connection brings; why it ended.
    async fn watch(
        &mut self,
        mut response: reqwest::Response,
        reader: &mut SseReader,
        last_id: &mut Option<String>,
    ) -> String {
        loop {
            let piece = match tokio::time::timeout(SILENCE_MAX, response.chunk()).await {
                Err(_) => return format!("nothing came for {} s", SILENCE_MAX.as_secs()),
                Ok(Err(_)) => return "the connection was lost".to_owned(),
                Ok(Ok(None)) => return "the server ended the stream".to_owned(),
                Ok(Ok(Some(piece))) => piece,
            };
            for event in reader.take(&piece) {
                self.show(&event);
                if self.has_enough() {
                    return String::new();
                }
            }
            last_id.clone_from(&reader.id);
        }
    }

    fn show(&mut self, event: &SseEvent) {
        let Ok(raw) = serde_json::from_str::<Value>(&event.data) else {
            return complain("the server sent something that is no event of ours");
        };
        let view = TailView::deserialize(&raw);
        if let Ok(TailView::Event { .. }) = view {
            self.shown_n += 1;
        }
        if self.desk.screen.is_json {
            return say(with_times(with_id(raw, event.id.as_deref())));
        }
        match view {
            Ok(TailView::Event { event }) => self.line(&event),
            Ok(TailView::Skipped { skipped_n }) => {
                let skipped = plural(skipped_n, "event");
                complain(format!("{skipped} skipped: they came faster than they were shown"));
            }
            // A newer server may tell more than this version knows.
            Err(_) => {}
        }
    }

    /// One line, as wide as it is: the next one is not known yet.
    fn line(&self, event: &EventView) {
        let screen = &self.desk.screen;
        let cells = event.cells(screen);
        let mut fields = vec![in_day(event.received_at_ms)];
        fields.extend(cells.iter().skip(1).map(|cell: &Shown| screen.paint(cell.tone(), cell.as_str())));
        if event.error.is_none() {
            fields.pop();
        }
        if event.attempts_n > 1 {
            fields.push(format!("({} dispatches)", grouped(event.attempts_n.into())));
        }
        screen.print(&fields.join("  "));
    }
}

/// The id to resume behind, beside what the event says.
fn with_id(mut raw: Value, id: Option<&str>) -> Value {
    if let (Some(members), Some(id)) = (raw.as_object_mut(), id) {
        members.entry("id").or_insert_with(|| id.into());
    }
    raw
}
