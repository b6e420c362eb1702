//! What the nodes counted over time as bars, drawn here as SVG. They are shapes beside numbers: what they show stands
//! in words in their legend and in figures in a table, for those who see no colours or no shapes.

use maud::{Markup, html};

use super::list;
use super::text::{Mood, colour, figure};
use hooklatch_contract::{ActivityCount, ActivityView};
use hooklatch_core::times;
use hooklatch_core::types::UnixMs;

/// Most stretches of time of a chart.
const BARS_N_MAX: i64 = 400;
/// Height of a drawing, in units of its own.
const HEIGHT: u64 = 100;
/// Height of the part that is drawn to scale: what is left is for things too few to be seen otherwise.
const HEIGHT_TO_SCALE: u64 = 88;
/// Lowest height at which a thing that was counted is drawn: one rejected request among thousands is to be seen.
const HEIGHT_MIN: u64 = 2;

/// A thing that is drawn: its word, how it is taken, whether it is the paler one of two, and the outcomes that it has.
type Drawn = (&'static str, Mood, bool, &'static [&'static str]);

/// Requests as they are drawn, from the ground up.
pub(crate) const REQUESTS: [Drawn; 7] = [
    ("accepted", Mood::Good, false, &["accepted"]),
    ("duplicate", Mood::Quiet, true, &["duplicate"]),
    ("other", Mood::Busy, false, &["none", "superseded", "replayed"]),
    ("conflict or unreadable", Mood::Needed, false, &["conflict", "unreadable"]),
    ("unavailable", Mood::Bad, true, &["unavailable"]),
    ("refused", Mood::Bad, true, &["refused"]),
    ("rejected", Mood::Bad, false, &["rejected"]),
];
/// Attempts as they are drawn, from the ground up.
pub(crate) const ATTEMPTS: [Drawn; 5] = [
    ("done", Mood::Good, false, &["done"]),
    ("released", Mood::Quiet, true, &["released"]),
    ("retry", Mood::Busy, false, &["retry"]),
    ("unknown", Mood::Needed, false, &["unknown"]),
    ("refused", Mood::Bad, false, &["refused"]),
];

/// One thing that was counted, over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series {
    /// The word for it.
    pub word: &'static str,
    mood: Mood,
    is_pale: bool,
    /// Its number in each stretch of time, the oldest first.
    numbers: Vec<u64>,
}

impl Series {
    /// The sum of its numbers.
    pub(crate) fn total(&self) -> u64 {
        self.numbers.iter().sum()
    }

    fn at(&self, at: usize) -> u64 {
        self.numbers.get(at).copied().unwrap_or_default()
    }

    fn class(&self) -> String {
        format!("{}{}", colour(self.mood), if self.is_pale { " pale" } else { "" })
    }
}

/// These counts, of one name or of several, as they are drawn.
pub(crate) fn series<'a>(
    view: &ActivityView,
    drawn: &[Drawn],
    counts: impl Iterator<Item = &'a ActivityCount>,
) -> Vec<Series> {
    let empty = |(word, mood, is_pale, _): &Drawn| Series {
        word,
        mood: *mood,
        is_pale: *is_pale,
        numbers: vec![0; bars_n(view)],
    };
    let mut all: Vec<Series> = drawn.iter().map(empty).collect();
    for count in counts {
        let at = usize::try_from((count.at_ms - view.from_ms).div_euclid(view.step_ms.max(1))).ok();
        let place = drawn.iter().position(|(_, _, _, outcomes)| outcomes.contains(&count.outcome.as_str()));
        let number = place.and_then(|place| all.get_mut(place)?.numbers.get_mut(at?));
        if let Some(number) = number {
            *number += count.counted_n;
        }
    }
    all
}

/// A chart with its legend, the time below it and its numbers; a sentence where nothing was counted.
pub(crate) fn chart(view: &ActivityView, noun: &str, series: &[Series]) -> Markup {
    if series.iter().all(|one| one.total() == 0) {
        return list::nothing(&format!("No {noun} in the last {} hours.", bars_n(view)));
    }
    let most = (0..bars_n(view)).map(|at| sum_at(series, at)).max().unwrap_or_default();
    html! {
        figure class="over-time" {
            ul class="legend" {
                @for one in series.iter().filter(|one| one.total() > 0) {
                    li { span class={ "swatch " (one.class()) } {} (figure(one.total(), false)) " " (one.word) }
                }
            }
            (drawing("chart", noun, series))
            div class="axis" {
                span { (clock(view.from_ms)) }
                span { "most in an hour: " (figure(most, false)) }
                span { "now" }
            }
            details {
                summary { "The numbers, hour by hour" }
                (table(view, noun, series))
            }
        }
    }
}

fn table(view: &ActivityView, noun: &str, series: &[Series]) -> Markup {
    let shown: Vec<&Series> = series.iter().filter(|one| one.total() > 0).collect();
    let headings: Vec<&str> = ["Hour (UTC)"].into_iter().chain(shown.iter().map(|one| one.word)).collect();
    let row = |(at, began_ms): (usize, UnixMs)| {
        html! {
            tr {
                th scope="row" { (clock(began_ms)) }
                @for one in &shown { td { (figure(one.at(at), false)) } }
            }
        }
    };
    let times = (view.from_ms..).step_by(usize::try_from(view.step_ms).unwrap_or(1).max(1));
    let counted = (0..bars_n(view)).zip(times).filter(|(at, _)| sum_at(series, *at) > 0);
    let mut rows: Vec<Markup> = counted.map(row).collect();
    rows.reverse();
    list::table(&format!("{noun} per hour"), &headings, &rows)
}

/// What a chart shows, in words, for those who do not see it.
fn in_words(noun: &str, series: &[Series]) -> String {
    let counted = series.iter().filter(|one| one.total() > 0);
    let words: Vec<String> = counted.map(|one| format!("{} {}", one.total(), one.word)).collect();
    format!("{noun}: {}", if words.is_empty() { "none".to_owned() } else { words.join(", ") })
}

fn bars_n(view: &ActivityView) -> usize {
    let bars_n = view.now_ms.saturating_sub(view.from_ms) / view.step_ms.max(1) + 1;
    usize::try_from(bars_n.clamp(0, BARS_N_MAX)).unwrap_or_default()
}

fn sum_at(series: &[Series], at: usize) -> u64 {
    series.iter().map(|one| one.at(at)).sum()
}

fn clock(at_ms: UnixMs) -> String {
    times::in_day(at_ms).get(..5).unwrap_or_default().to_owned()
}

/// A drawing of this class, `chart` or `spark`; `noun` is what was counted.
pub(crate) fn drawing(class: &str, noun: &str, series: &[Series]) -> Markup {
    let bars_n = series.iter().map(|one| one.numbers.len()).max().unwrap_or_default();
    let shapes = shapes(series, bars_n);
    html! {
        svg class=(class) viewBox={ "0 0 " (bars_n.max(1)) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
            title { (in_words(noun, series)) }
            @for (one, shape) in series.iter().zip(&shapes) {
                @if !shape.is_empty() { path class=(one.class()) d=(shape) {} }
            }
        }
    }
}

/// The outline of each series: a bar for each stretch of time, on those of the series before it.
fn shapes(series: &[Series], bars_n: usize) -> Vec<String> {
    let highest = (0..bars_n).map(|at| sum_at(series, at)).max().unwrap_or_default().max(1);
    let mut tops = vec![HEIGHT; bars_n];
    let shape = |one: &Series| {
        let mut outline = String::new();
        for (at, top) in tops.iter_mut().enumerate().filter(|(at, _)| one.at(*at) > 0) {
            let to_scale = one.at(at).saturating_mul(HEIGHT_TO_SCALE) / highest;
            let height = to_scale.max(HEIGHT_MIN).min(*top);
            *top -= height;
            outline.extend([format!("M{at} {top}h.8v{height}h-.8z")]);
        }
        outline
    };
    series.iter().map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::types::{AttemptResult, Outcome};

    const HOUR_MS: i64 = 3_600_000;

    fn drawn(numbers: &[&[u64]]) -> Vec<Series> {
        let one = |numbers: &&[u64]| Series {
            word: "word",
            mood: Mood::Good,
            is_pale: false,
            numbers: numbers.to_vec(),
        };
        numbers.iter().map(one).collect()
    }

    fn view() -> ActivityView {
        let (requests, attempts) = (Vec::new(), Vec::new());
        ActivityView { from_ms: HOUR_MS, now_ms: 3 * HOUR_MS + 5, step_ms: HOUR_MS, requests, attempts }
    }

    fn count(hour: i64, outcome: &str, counted_n: u64) -> ActivityCount {
        let (name, outcome) = ("shop".to_owned(), outcome.to_owned());
        ActivityCount { at_ms: hour * HOUR_MS, name, outcome, counted_n }
    }

    #[test]
    fn hours_find_their_places_and_those_of_another_time_have_none() {
        let counts = [0, 1, 3, 3, 4].map(|hour| count(hour, "accepted", 1 + hour.unsigned_abs()));
        let series = series(&view(), &REQUESTS, counts.iter());
        assert_eq!((series[0].word, series[0].numbers.as_slice()), ("accepted", [2, 0, 8].as_slice()));
        assert_eq!(series.iter().map(Series::total).sum::<u64>(), 10);
        assert_eq!(in_words("Requests", &series), "Requests: 10 accepted");
        assert_eq!(in_words("Requests", &[]), "Requests: none");
    }

    #[test]
    fn whatever_is_counted_is_drawn_under_one_word() {
        let outcomes = Outcome::ALL.iter().map(|outcome| outcome.as_str());
        for outcome in outcomes.chain(["none", "rejected", "unavailable", "refused"]) {
            let total = series(&view(), &REQUESTS, [count(1, outcome, 7)].iter())
                .iter()
                .map(Series::total)
                .sum::<u64>();
            assert_eq!(total, 7, "{outcome}");
        }
        for result in AttemptResult::ALL {
            let total = series(&view(), &ATTEMPTS, [count(1, result.as_str(), 7)].iter())
                .iter()
                .map(Series::total)
                .sum::<u64>();
            assert_eq!(total, 7, "{result}");
        }
    }

    #[test]
    fn a_chart_has_a_legend_and_the_hours_in_which_anything_was_counted() {
        let series = series(&view(), &ATTEMPTS, [count(2, "done", 1_200), count(2, "refused", 1)].iter());
        let drawn = chart(&view(), "calls", &series).0;
        for part in ["<title>calls: 1200 done, 1 refused", "1,200</span> done", "02:00", "1,201"] {
            assert!(drawn.contains(part), "no `{part}` in {drawn}");
        }
        assert!(!drawn.contains("retry") && !drawn.contains("03:00"), "{drawn}");
        assert!(chart(&view(), "calls", &[]).0.contains("No calls in the last 3 hours."));
    }

    #[test]
    fn bars_stand_on_each_other_and_the_few_are_seen_among_the_many() {
        #[track_caller]
        fn check(numbers: &[&[u64]], want: &[&str]) {
            assert_eq!(shapes(&drawn(numbers), 2), want);
        }
        check(&[&[0, 0]], &[""]);
        check(&[&[1, 2]], &["M0 56h.8v44h-.8zM1 12h.8v88h-.8z"]);
        check(&[&[1, 0], &[1, 2]], &["M0 56h.8v44h-.8z", "M0 12h.8v44h-.8zM1 12h.8v88h-.8z"]);
        check(&[&[10_000, 0], &[1, 0]], &["M0 13h.8v87h-.8z", "M0 11h.8v2h-.8z"]);
        check(&[&[], &[u64::MAX / 100, 1]], &["", "M0 12h.8v88h-.8zM1 98h.8v2h-.8z"]);
        assert!(drawing("chart", "nothing < all", &[]).0.contains("<title>nothing &lt; all: none</title>"));
    }
}
