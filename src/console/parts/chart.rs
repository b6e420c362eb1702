//! Bars over time, drawn here as SVG. They are shapes beside numbers: what they show stands in words in their legend and
//! in figures in a table, for those who see no colours or no shapes.

use maud::{Markup, html};

use super::chip::Mood;
use super::moment::figure;

/// Height of a drawing, in units of its own.
const HEIGHT: u64 = 100;
/// Height of the part that is drawn to scale: what is left is for things too few to be seen otherwise.
const HEIGHT_TO_SCALE: u64 = 88;
/// Lowest height at which a thing that was counted is drawn: one rejected request among thousands is to be seen.
const HEIGHT_MIN: u64 = 2;

/// One thing that was counted, over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::console) struct Series {
    /// The word for it.
    pub(in crate::console) word: &'static str,
    /// How it is taken; it has the colour of that.
    pub(in crate::console) mood: Mood,
    /// True for the paler one of two that are taken alike.
    pub(in crate::console) is_pale: bool,
    /// Its number in each stretch of time, the oldest first.
    pub(in crate::console) numbers: Vec<u64>,
}

impl Series {
    /// The sum of its numbers.
    pub(in crate::console) fn total(&self) -> u64 {
        self.numbers.iter().sum()
    }

    fn class(&self) -> String {
        format!("{}{}", self.mood.colour(), if self.is_pale { " pale" } else { "" })
    }

    /// The same with `n` stretches taken as one.
    fn coarse(&self, n: usize) -> Self {
        let numbers = self.numbers.chunks(n.max(1)).map(|some| some.iter().sum()).collect();
        Self { numbers, ..self.clone() }
    }
}

/// A drawing of bars, one on the other; `about` says in words what it shows.
pub(in crate::console) fn bars(about: &str, series: &[Series]) -> Markup {
    drawing("chart", about, series)
}

/// The same, small, for a cell of a table: three stretches of time are one bar.
pub(in crate::console) fn spark(about: &str, series: &[Series]) -> Markup {
    let coarse: Vec<Series> = series.iter().map(|one| one.coarse(3)).collect();
    drawing("spark", about, &coarse)
}

/// The words for what was counted, each with its sum and its colour.
pub(in crate::console) fn legend(series: &[Series]) -> Markup {
    html! {
        ul class="legend" {
            @for one in series.iter().filter(|one| one.total() > 0) {
                li { span class={ "swatch " (one.class()) } {} (figure(one.total(), false)) " " (one.word) }
            }
        }
    }
}

fn drawing(class: &str, about: &str, series: &[Series]) -> Markup {
    let bars_n = series.iter().map(|one| one.numbers.len()).max().unwrap_or_default();
    let shapes = shapes(series, bars_n);
    html! {
        svg class=(class) viewBox={ "0 0 " (bars_n.max(1)) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
            title { (about) }
            @for (one, shape) in series.iter().zip(&shapes) {
                @if !shape.is_empty() { path class=(one.class()) d=(shape) {} }
            }
        }
    }
}

/// The outline of each series: a bar for each stretch of time, on those of the series before it.
fn shapes(series: &[Series], bars_n: usize) -> Vec<String> {
    let number = |one: &Series, at: usize| one.numbers.get(at).copied().unwrap_or_default();
    let highest = (0..bars_n).map(|at| series.iter().map(|one| number(one, at)).sum::<u64>()).max();
    let highest = highest.unwrap_or_default().max(1);
    let mut tops = vec![HEIGHT; bars_n];
    let shape = |one: &Series| {
        let mut outline = String::new();
        for (at, top) in tops.iter_mut().enumerate().filter(|(at, _)| number(one, *at) > 0) {
            let to_scale = number(one, at).saturating_mul(HEIGHT_TO_SCALE) / highest;
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

    fn series(mood: Mood, numbers: &[u64]) -> Series {
        Series { word: "word", mood, is_pale: false, numbers: numbers.to_vec() }
    }

    #[test]
    fn bars_stand_on_each_other_and_the_few_are_seen_among_the_many() {
        #[track_caller]
        fn check(numbers: &[&[u64]], want: &[&str]) {
            let all: Vec<Series> = numbers.iter().map(|one| series(Mood::Good, one)).collect();
            assert_eq!(shapes(&all, 2), want);
        }
        check(&[&[0, 0]], &[""]);
        check(&[&[1, 2]], &["M0 56h.8v44h-.8zM1 12h.8v88h-.8z"]);
        check(&[&[1, 0], &[1, 2]], &["M0 56h.8v44h-.8z", "M0 12h.8v44h-.8zM1 12h.8v88h-.8z"]);
        check(&[&[10_000, 0], &[1, 0]], &["M0 13h.8v87h-.8z", "M0 11h.8v2h-.8z"]);
        check(&[&[], &[u64::MAX / 100, 1]], &["", "M0 12h.8v88h-.8zM1 98h.8v2h-.8z"]);
    }

    #[test]
    fn however_many_there_are_nothing_is_drawn_outside() {
        let all: Vec<Series> =
            (0..9).map(|n| series(Mood::Bad, &[if n == 0 { 1_000_000 } else { 1 }])).collect();
        for shape in shapes(&all, 1) {
            let (_, top) = shape.split_once(' ').expect("a bar");
            let top: u64 = top.split('h').next().expect("a height").parse().expect("a number");
            assert!(top < HEIGHT, "{shape}");
        }
    }

    #[test]
    fn what_was_not_counted_has_no_place_in_the_legend() {
        let all = [series(Mood::Good, &[1, 1_000]), series(Mood::Bad, &[0, 0])];
        let drawn = legend(&all).0;
        assert!(drawn.contains("1,001</span> word") && !drawn.contains("bad"), "{drawn}");
        assert_eq!(all[0].coarse(3).numbers, [1_001]);
        assert_eq!(series(Mood::Good, &[1, 2, 3, 4]).coarse(3).numbers, [6, 4]);
        assert!(bars("nothing < all", &[]).0.contains("<title>nothing &lt; all</title>"));
    }
}
