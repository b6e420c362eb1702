//! The entries of a ledger in order of time, each with how long after the one before it came.

use maud::{Markup, html};

use super::entry::{self, DrawnEntry};
use super::look::LedgerLook;
use crate::api::{LedgerEntry, LedgerView};
use crate::console::contract::with_query;
use crate::console::visit::Visit;
use crate::figures::grouped;
use crate::times::{ago, day, in_day, rfc3339};

/// Entries that are shown of the beginning, and of the end, of a ledger that has many.
const FIRST_N: usize = 20;
const LAST_N: usize = 100;

pub(super) fn timeline(visit: &Visit, view: &LedgerView, path: &str, look: LedgerLook) -> Markup {
    let told = &view.entries;
    let left_out_n = if look.has_all_entries { 0 } else { told.len().saturating_sub(FIRST_N + LAST_N) };
    let last_n = told.len() - told.len().min(FIRST_N) - left_out_n;
    let (mut today, mut before_ms) = (String::new(), None);
    let mut drawn = |one: &LedgerEntry| {
        let at_ms = one.at_ms;
        let date = Some(day(at_ms)).filter(|date| *date != today);
        let after_ms = before_ms.replace(at_ms).map(|before_ms| at_ms.saturating_sub(before_ms));
        today = date.clone().unwrap_or_else(|| std::mem::take(&mut today));
        item(&entry::draw(visit, view, &one.what), at_ms, date, after_ms)
    };
    html! {
        ol class="timeline" {
            @for one in told.iter().take(FIRST_N) { (drawn(one)) }
            @if left_out_n > 0 {
                li class="left-out" {
                    a href=(visit.link(&with_query(path, &[("entries", Some("all"))]))) {
                        (grouped(left_out_n as u64)) " entries between are not shown: show all"
                    }
                }
            }
            @for one in told.iter().rev().take(last_n).rev() { (drawn(one)) }
        }
        p class="hint" { "Times are in UTC, to the millisecond; beside each stands how long after the entry before it came." }
    }
}

fn item(drawn: &DrawnEntry, at_ms: i64, date: Option<String>, after_ms: Option<i64>) -> Markup {
    let exact = rfc3339(at_ms).unwrap_or_else(|| at_ms.to_string());
    html! {
        li class=(drawn.class) {
            div class="when" {
                @if let Some(date) = date { span class="date" { (date) } " " }
                time datetime=(exact) title=(exact) { (in_day(at_ms)) }
                @if let Some(after_ms) = after_ms { " " span class="after" { "+" (distance(after_ms)) } }
            }
            div class="what" {
                strong { (drawn.name) } " " (drawn.more)
            }
        }
    }
}

/// A distance between two entries: exact while that says something. Milliseconds.
fn distance(ms: i64) -> String {
    match ms.max(0) {
        ms @ 0..=999 => format!("{ms} ms"),
        ms @ 1_000..=119_999 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms => ago(ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_is_told_in_a_unit_that_says_something() {
        #[track_caller]
        fn check(ms: i64, want: &str) {
            assert_eq!(distance(ms), want);
        }
        check(-1, "0 ms");
        check(999, "999 ms");
        check(1_000, "1.0 s");
        check(119_999, "119.9 s");
        check(120_000, "2 min");
        check(7_200_000, "2 h");
    }
}
