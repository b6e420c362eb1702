//! What a node counted over time, as charts: requests by how they ended, attempts by what became of them.

use maud::{Markup, html};

use super::chart::{self, Series};
use super::chip::Mood;
use super::list;
use super::moment::figure;
use crate::api::{ActivityView, AttemptMinute, RequestMinute};
use crate::minutes::MINUTE_MS;
use crate::times;
use crate::types::UnixMs;

/// A thing that is drawn: its word, how it is taken, whether it is the paler one of two, and its number in a minute.
type Counted<T> = (&'static str, Mood, bool, fn(&T) -> u64);

/// Requests as they are drawn, from the ground up.
const REQUESTS: [Counted<RequestMinute>; 7] = [
    ("accepted", Mood::Good, false, |one| one.accepted_n),
    ("duplicate", Mood::Quiet, true, |one| one.duplicate_n),
    ("other", Mood::Busy, false, |one| one.none_n + one.superseded_n + one.replayed_n),
    ("conflict or unreadable", Mood::Needed, false, |one| one.conflict_n + one.unreadable_n),
    ("unavailable", Mood::Bad, true, |one| one.unavailable_n),
    ("refused", Mood::Bad, true, |one| one.refused_n),
    ("rejected", Mood::Bad, false, |one| one.rejected_n),
];
/// Attempts as they are drawn, from the ground up.
const ATTEMPTS: [Counted<AttemptMinute>; 6] = [
    ("done", Mood::Good, false, |one| one.done_n),
    ("released", Mood::Quiet, true, |one| one.released_n),
    ("retry", Mood::Busy, false, |one| one.retry_n),
    ("held", Mood::Needed, true, |one| one.held_n),
    ("unknown", Mood::Needed, false, |one| one.unknown_n),
    ("dead", Mood::Bad, false, |one| one.dead_n),
];

/// The minutes that a view tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::console) struct Hour {
    from_ms: UnixMs,
    minutes_n: usize,
}

impl Hour {
    /// The minutes of this view.
    pub(in crate::console) fn of(view: &ActivityView) -> Self {
        let minutes_n = view.now_ms.saturating_sub(view.from_ms).max(0) / MINUTE_MS + 1;
        Self { from_ms: view.from_ms, minutes_n: usize::try_from(minutes_n).unwrap_or_default().min(180) }
    }

    /// Requests of these minutes, of one provider or of several.
    pub(in crate::console) fn requests<'a>(
        self,
        minutes: impl Iterator<Item = &'a RequestMinute> + Clone,
    ) -> Vec<Series> {
        let timed = minutes.map(|one| (one.at_ms, one));
        REQUESTS.iter().map(|counted| self.series(counted, timed.clone())).collect()
    }

    /// Attempts of these minutes, for one destination or for several.
    pub(in crate::console) fn attempts<'a>(
        self,
        minutes: impl Iterator<Item = &'a AttemptMinute> + Clone,
    ) -> Vec<Series> {
        let timed = minutes.map(|one| (one.at_ms, one));
        ATTEMPTS.iter().map(|counted| self.series(counted, timed.clone())).collect()
    }

    fn series<'a, T: 'a>(
        self,
        (word, mood, is_pale, of): &Counted<T>,
        minutes: impl Iterator<Item = (UnixMs, &'a T)>,
    ) -> Series {
        let mut numbers = vec![0; self.minutes_n];
        for (at_ms, minute) in minutes {
            let at = usize::try_from(at_ms.saturating_sub(self.from_ms).div_euclid(MINUTE_MS)).ok();
            if let Some(number) = at.and_then(|at| numbers.get_mut(at)) {
                *number += of(minute);
            }
        }
        Series { word, mood: *mood, is_pale: *is_pale, numbers }
    }

    /// A chart with its legend, the time below it and its numbers; a sentence where nothing was counted.
    pub(in crate::console) fn chart(self, noun: &str, series: &[Series]) -> Markup {
        let total: u64 = series.iter().map(Series::total).sum();
        if total == 0 {
            return list::nothing(&format!("No {noun} in the last {} minutes.", self.minutes_n));
        }
        let sums = (0..self.minutes_n).map(|at| sum_at(series, at));
        html! {
            figure class="over-time" {
                (chart::legend(series))
                (chart::bars(&in_words(noun, series), series))
                div class="axis" {
                    span { (clock(self.from_ms)) }
                    span { "most in a minute: " (figure(sums.max().unwrap_or_default(), false)) }
                    span { "now" }
                }
                details {
                    summary { "The numbers, minute by minute" }
                    (self.table(noun, series))
                }
            }
        }
    }

    fn table(self, noun: &str, series: &[Series]) -> Markup {
        let shown: Vec<&Series> = series.iter().filter(|one| one.total() > 0).collect();
        let headings: Vec<&str> =
            ["Minute (UTC)"].into_iter().chain(shown.iter().map(|one| one.word)).collect();
        let row = |(at, began_ms): (usize, UnixMs)| {
            html! {
                tr {
                    th scope="row" { (clock(began_ms)) }
                    @for one in &shown {
                        td { (figure(one.numbers.get(at).copied().unwrap_or_default(), false)) }
                    }
                }
            }
        };
        let times = (self.from_ms..).step_by(usize::try_from(MINUTE_MS).unwrap_or(1));
        let counted = (0..self.minutes_n).zip(times).filter(|(at, _)| sum_at(series, *at) > 0);
        let mut rows: Vec<Markup> = counted.map(row).collect();
        rows.reverse();
        list::table(&format!("{noun} per minute"), &headings, &rows)
    }
}

/// What a chart shows, in words, for those who do not see it.
pub(in crate::console) fn in_words(noun: &str, series: &[Series]) -> String {
    let told: Vec<String> = series
        .iter()
        .filter(|one| one.total() > 0)
        .map(|one| format!("{} {}", one.total(), one.word))
        .collect();
    format!("{noun}: {}", if told.is_empty() { "none".to_owned() } else { told.join(", ") })
}

/// Who counted, and since when.
pub(in crate::console) fn counted_by(view: &ActivityView) -> Markup {
    html! {
        p class="hint" {
            "Counted in memory by this node, " code { (view.node) } ", since "
            (super::moment::moment(view.since_ms, view.now_ms)) ". Other nodes count for themselves."
        }
    }
}

fn sum_at(series: &[Series], at: usize) -> u64 {
    series.iter().filter_map(|one| one.numbers.get(at)).sum()
}

fn clock(at_ms: UnixMs) -> String {
    times::in_day(at_ms).get(..5).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour() -> Hour {
        Hour { from_ms: 60_000, minutes_n: 3 }
    }

    #[test]
    fn minutes_find_their_places_and_those_of_another_time_have_none() {
        let minute = |at_ms, accepted_n| RequestMinute { at_ms, accepted_n, ..RequestMinute::default() };
        let minutes =
            [minute(0, 9), minute(60_000, 1), minute(180_000, 2), minute(180_000, 3), minute(240_000, 9)];
        let series = hour().requests(minutes.iter());
        assert_eq!((series[0].word, series[0].numbers.as_slice()), ("accepted", [1, 0, 5].as_slice()));
        assert_eq!(series.iter().map(Series::total).sum::<u64>(), 6);
        assert_eq!(in_words("Requests", &series), "Requests: 6 accepted");
        assert_eq!(in_words("Requests", &[]), "Requests: none");
    }

    #[test]
    fn whatever_is_counted_is_drawn_under_one_word() {
        let numbers = |told: serde_json::Value| {
            let told = told.as_object().expect("a minute").clone();
            // Part of `accepted_n`.
            let is_drawn = |name: &str| !["at_ms", "untaken_n"].contains(&name);
            told.into_iter().filter(|(name, _)| is_drawn(name)).map(|(name, _)| name).collect::<Vec<_>>()
        };
        let filled = |names: &[String], one: &String| {
            let all = names.iter().map(|name| (name.clone(), serde_json::json!(u8::from(name == one))));
            let mut all: serde_json::Map<String, serde_json::Value> = all.collect();
            all.insert("at_ms".to_owned(), 60_000.into());
            all.insert("untaken_n".to_owned(), 0.into());
            serde_json::Value::Object(all)
        };
        let of_requests = numbers(serde_json::to_value(RequestMinute::default()).expect("JSON"));
        for name in &of_requests {
            let minute: RequestMinute = serde_json::from_value(filled(&of_requests, name)).expect("a minute");
            let series = hour().requests([minute].iter());
            assert_eq!(series.iter().map(Series::total).sum::<u64>(), 1, "{name}");
        }
        let of_attempts = numbers(serde_json::to_value(AttemptMinute::default()).expect("JSON"));
        for name in &of_attempts {
            let minute: AttemptMinute = serde_json::from_value(filled(&of_attempts, name)).expect("a minute");
            let series = hour().attempts([minute].iter());
            assert_eq!(series.iter().map(Series::total).sum::<u64>(), 1, "{name}");
        }
    }

    #[test]
    fn a_chart_has_its_numbers_beside_it() {
        let minute = AttemptMinute { at_ms: 120_000, done_n: 1_200, dead_n: 1, ..AttemptMinute::default() };
        let drawn = hour().chart("attempts", &hour().attempts([minute].iter())).0;
        for part in
            ["role=\"img\"", "<title>attempts: 1200 done, 1 dead</title>", "1,200</span> done", "00:02</th>"]
        {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        assert!(!drawn.contains("00:01</th>") && !drawn.contains("retry"), "{drawn}");
        let nothing = hour().chart("attempts", &hour().attempts([].iter())).0;
        assert!(nothing.contains("No attempts in the last 3 minutes."), "{nothing}");
    }
}
