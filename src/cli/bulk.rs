//! What acts on all that a filter finds: counted and shown first, then a durable operation that is followed to its end.

use std::process::ExitCode;

use clap::Args;
use serde::de::DeserializeOwned;

use super::api_client::{ApiAnswer, OrderPlace};
use super::decide::WhyArgs;
use super::desk::{Desk, ListRow, filter_in_words, rows};
use super::ending::Ending;
use super::operations::{ended, follow};
use super::output::{plural, with_times};
use super::shared::{Usage, complain, say};
use crate::api::{CountView, OperationOrder, OperationSubject, OperationView, Page};

/// Rows that are shown before somebody says `--yes`.
const SHOWN_N: &str = "10";

/// Arguments of what may act on several.
#[derive(Args)]
pub(super) struct BulkArgs {
    /// Act on all that the filter finds. Without it they are counted and shown.
    #[arg(long)]
    yes: bool,
    /// With --yes: do not wait for the end of the operation.
    #[arg(long)]
    no_wait: bool,
}

/// What is to be done to all that a filter finds.
pub(super) struct Bulk {
    /// The list of which it is a choice: `events` or `messages`.
    pub(super) list: &'static str,
    pub(super) query: Vec<(&'static str, Option<String>)>,
    pub(super) subject: OperationSubject,
    /// The arguments as they were typed: the same when the command is given again.
    pub(super) typed: String,
}

/// A count in words.
pub(super) fn counted(count: &CountView, noun: &str) -> String {
    let more = if count.is_more { "at least " } else { "" };
    format!("{more}{}", plural(count.counted_n, noun))
}

/// The things that arguments have said about what a command acts on.
pub(super) struct Said {
    /// True when one is named.
    pub(super) is_named: bool,
    /// True when a filter is said.
    pub(super) is_filtered: bool,
    /// True when its version is said.
    pub(super) has_version: bool,
}

impl Said {
    /// True when a command is about one `noun`, false when it is about all that a filter finds.
    pub(super) fn is_about_one(&self, noun: &str) -> Result<bool, Usage> {
        match (self.is_named, self.is_filtered) {
            (true, true) => Err(Usage(format!("name one {noun} or say a filter, not both"))),
            (true, false) => Ok(true),
            (false, false) => {
                Err(Usage(format!("name one {noun}, or say --state and what else they have in common")))
            }
            (false, true) if self.has_version => {
                Err(Usage(format!("--if-match is about one {noun}: name it")))
            }
            (false, true) => Ok(false),
        }
    }
}

/// Counts, and with `--yes` begins the operation and follows it.
pub(super) fn perform<T: ListRow + DeserializeOwned>(
    desk: &Desk,
    bulk: Bulk,
    why: &WhyArgs,
    args: &BulkArgs,
) -> anyhow::Result<ExitCode> {
    let meaning = format!("{} {}", bulk.typed, why.reason);
    let asked =
        OrderPlace { path: &["operations"], meaning: &meaning, key: why.key.as_deref(), if_match: None };
    let query: Vec<_> = bulk.query.iter().map(|(name, value)| (*name, value.as_deref())).collect();
    // What was ordered before and not answered has been counted then; now it would find what is left.
    let is_left = args.yes && desk.api.left(&asked);
    let mut counted_n = 0;
    if !is_left {
        let count: ApiAnswer<CountView> = desk.api.get(&[bulk.list, "count"], &query)?;
        if !args.yes {
            return preview::<T>(desk, &bulk, &query, &count);
        }
        if count.view.is_more {
            let found = counted(&count.view, T::NOUN);
            return Err(Usage(format!(
                "{found}: say more, such as a provider or a time, and do it in parts"
            ))
            .into());
        }
        if count.view.counted_n == 0 {
            complain(format!("no {}s with {}: there is nothing to do", T::NOUN, filter_in_words(&query)));
            return Ok(ExitCode::SUCCESS);
        }
        counted_n = count.view.counted_n;
    }
    let order = OperationOrder { subject: bulk.subject, counted_n, reason: why.reason.clone() };
    let begun: ApiAnswer<OperationView> = desk.api.post(&asked, &order)?;
    if args.no_wait {
        if desk.screen.is_json {
            say(with_times(begun.raw));
        } else {
            say(&begun.view.operation_id);
            complain("it runs; `hooklatch operations wait` follows it");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let id = &begun.view.operation_id;
    complain(format!(
        "operation {id}: it goes on when you leave; `hooklatch operations cancel {id}` stops it"
    ));
    let end = follow(desk, begun, None)?;
    Ok(ended(desk, &end).code())
}

/// Says how many there are, and shows the newest.
fn preview<T: ListRow + DeserializeOwned>(
    desk: &Desk,
    bulk: &Bulk,
    query: &[(&'static str, Option<&str>)],
    count: &ApiAnswer<CountView>,
) -> anyhow::Result<ExitCode> {
    if desk.screen.is_json {
        say(&count.raw);
    } else {
        let mut asked = query.to_vec();
        asked.push(("limit", Some(SHOWN_N)));
        let page: ApiAnswer<Page<T>> = desk.api.get(&[bulk.list], &asked)?;
        if !page.view.items.is_empty() {
            desk.screen.print(&rows(&desk.screen, &page.view.items, true));
        }
        say(format!("{} with {}", counted(&count.view, T::NOUN), filter_in_words(query)));
    }
    complain("nothing was done: --yes acts on them");
    Ok(Ending::NotDone.code())
}
