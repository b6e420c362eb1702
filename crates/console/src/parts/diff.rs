//! The lines of two texts side by side: what stands in both, and what stands in one alone, as a table in which it has a
//! sign.

use maud::{Markup, html};

use super::list;
use hooklatch_core::figures::plural;

/// Most lines of each text that are compared: the work grows with the product of both.
pub(crate) const LINES_N_MAX: usize = 2_000;
/// Lines that are shown around a difference.
const AROUND_N: usize = 3;

/// A row of two texts side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffRow<'a> {
    /// The line stands in both.
    Same(&'a str),
    /// Lines that differ; nothing where the one has a line more.
    Other(Option<&'a str>, Option<&'a str>),
    /// So many lines that stand in both are left out.
    LeftOut(usize),
}

/// The rows of these two texts; `None` when they are too long to be compared.
pub(crate) fn side_by_side<'a>(first: &'a [String], other: &'a [String]) -> Option<Vec<DiffRow<'a>>> {
    if first.len().max(other.len()) > LINES_N_MAX {
        return None;
    }
    let lines = |lines: &'a [String]| -> Vec<&'a str> { lines.iter().map(String::as_str).collect() };
    Some(folded(&rows(&lines(first), &lines(other))))
}

/// For each line of `first` from its last one on, and for the end: how many lines are in both, in order, of what
/// follows it there and of what follows each line of `other`, from its last one on.
fn lengths(first: &[&str], other: &[&str]) -> Vec<Vec<u16>> {
    let mut all = vec![vec![0; other.len() + 1]];
    for line in first.iter().rev() {
        let mut row: Vec<u16> = Vec::with_capacity(other.len() + 1);
        let mut right = 0;
        row.push(right);
        let below = all.last().map(Vec::as_slice).unwrap_or_default();
        for (theirs, pair) in other.iter().rev().zip(below.windows(2)) {
            let &[diagonal, down] = pair else { continue };
            right = if line == theirs { diagonal + 1 } else { right.max(down) };
            row.push(right);
        }
        all.push(row);
    }
    all
}

fn rows<'a>(first: &[&'a str], other: &[&'a str]) -> Vec<DiffRow<'a>> {
    let lengths = lengths(first, other);
    let left_of = |left: &[&str], right: &[&str]| {
        lengths.get(left.len()).and_then(|row| row.get(right.len())).copied().unwrap_or_default()
    };
    let (mut left, mut right) = (first, other);
    let (mut rows, mut gone, mut new) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match (left.split_first(), right.split_first()) {
            (Some((one, one_rest)), Some((two, two_rest))) if one == two => {
                pair_up(&mut rows, &mut gone, &mut new);
                rows.push(DiffRow::Same(one));
                (left, right) = (one_rest, two_rest);
            }
            (Some((one, rest)), two) if two.is_none() || left_of(rest, right) == left_of(left, right) => {
                gone.push(*one);
                left = rest;
            }
            (_, Some((two, rest))) => {
                new.push(*two);
                right = rest;
            }
            (_, None) => break,
        }
    }
    pair_up(&mut rows, &mut gone, &mut new);
    rows
}

/// Puts the lines that only one text has beside those that only the other one has.
fn pair_up<'a>(rows: &mut Vec<DiffRow<'a>>, gone: &mut Vec<&'a str>, new: &mut Vec<&'a str>) {
    let n = gone.len().max(new.len());
    let padded = |lines: &mut Vec<&'a str>| {
        let lines = std::mem::take(lines).into_iter().map(Some);
        lines.chain(std::iter::repeat(None)).take(n)
    };
    rows.extend(padded(gone).zip(padded(new)).map(|(one, two)| DiffRow::Other(one, two)));
}

/// Leaves out equal lines that are far from every difference.
fn folded<'a>(rows: &[DiffRow<'a>]) -> Vec<DiffRow<'a>> {
    let mut folded = Vec::new();
    let runs: Vec<&[DiffRow<'a>]> = rows.chunk_by(|one, two| is_same(one) == is_same(two)).collect();
    for (n, run) in runs.iter().enumerate() {
        let before_n = if n == 0 { 0 } else { AROUND_N };
        let after_n = if n + 1 == runs.len() { 0 } else { AROUND_N };
        let left_out_n = run.len().saturating_sub(before_n + after_n);
        // One line is not worth a sentence about it.
        if !run.first().is_some_and(is_same) || left_out_n < 2 {
            folded.extend_from_slice(run);
            continue;
        }
        folded.extend(run.iter().take(before_n));
        folded.push(DiffRow::LeftOut(left_out_n));
        folded.extend(run.iter().skip(before_n + left_out_n));
    }
    folded
}

fn is_same(row: &DiffRow<'_>) -> bool {
    matches!(row, DiffRow::Same(_))
}

/// The rows of two texts, under the names of both.
pub(crate) fn table(caption: &str, names: [&str; 2], rows: &[DiffRow<'_>]) -> Markup {
    let drawn: Vec<Markup> = rows
        .iter()
        .map(|row| match row {
            DiffRow::Same(line) => html! { tr class="diff same" { td { (line) } td { (line) } } },
            DiffRow::Other(first, other) => html! {
                tr class="diff" { (side(*first, "bad", "− ")) (side(*other, "good", "+ ")) }
            },
            DiffRow::LeftOut(lines_n) => html! {
                tr { td colspan="2" class="none" { (plural(*lines_n as u64, "equal line")) } }
            },
        })
        .collect();
    list::table_as(list::STACKED, caption, &names, &drawn)
}

/// A line that one side alone has; its sign says so to those who see no colours.
fn side(line: Option<&str>, class: &str, sign: &str) -> Markup {
    html! {
        @match line {
            Some(line) => td class=(class) { span class="sign" { (sign) } (line) },
            None => td {},
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// Rows as a text: `a` in both, `a>` in the first alone, `>b` in the other alone, `a>b` beside each other.
    fn rows_as_text(first: &str, other: &str) -> String {
        let (first, other) = (lines(first), lines(other));
        let rows = side_by_side(&first, &other).expect("short texts");
        let row = |row: &DiffRow<'_>| match row {
            DiffRow::Same(line) => (*line).to_owned(),
            DiffRow::Other(one, two) => format!("{}>{}", one.unwrap_or_default(), two.unwrap_or_default()),
            DiffRow::LeftOut(n) => format!("({n})"),
        };
        rows.iter().map(row).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lines_of_both_stand_beside_each_other() {
        #[track_caller]
        fn check(first: &str, other: &str, want: &str) {
            assert_eq!(rows_as_text(first, other), want);
        }
        check("", "", "");
        check("a", "", "a>");
        check("", "a b", ">a >b");
        check("a b c", "a x c", "a b>x c");
        check("a b c d", "b c d e", "a> b c d >e");
        check("a a b", "a b b", "a a> b >b");
        check("a b", "b a", "a> b >a");
        check("x y", "1 2 3", "x>1 y>2 >3");
    }

    #[test]
    fn equal_lines_far_from_a_difference_are_counted() {
        let many = "1 2 3 4 5 6 7 8 9";
        assert_eq!(rows_as_text(many, many), "(9)");
        assert_eq!(
            rows_as_text(&format!("{many} a {many}"), &format!("{many} b {many}")),
            "(6) 7 8 9 a>b 1 2 3 (6)"
        );
        assert_eq!(rows_as_text(&format!("a {many} a"), &format!("b {many} b")), "a>b 1 2 3 (3) 7 8 9 a>b");
        assert_eq!(rows_as_text("a 1 2 3 4 5 6 7 a", "b 1 2 3 4 5 6 7 b"), "a>b 1 2 3 4 5 6 7 a>b");
    }

    #[test]
    fn both_texts_can_be_read_out_of_the_rows_again() {
        let mut random = fastrand::Rng::with_seed(13);
        for _ in 0..200 {
            let mut text = |n: usize| -> Vec<u32> { (0..n).map(|_| random.u32(0..5)).collect() };
            let (first, other) = (text(12), text(9));
            let lines = |numbers: &[u32]| -> Vec<&'static str> {
                numbers.iter().map(|n| ["a", "b", "c", "d", "e"][*n as usize]).collect()
            };
            let (first, other) = (lines(&first), lines(&other));
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for row in rows(&first, &other) {
                let (one, two) = match row {
                    DiffRow::Same(line) => (Some(line), Some(line)),
                    DiffRow::Other(one, two) => (one, two),
                    DiffRow::LeftOut(_) => (None, None),
                };
                left.extend(one);
                right.extend(two);
            }
            assert_eq!((left, right), (first, other));
        }
    }

    #[test]
    fn texts_that_are_too_long_are_not_compared() {
        let lines = |n: usize| (0..n).map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(side_by_side(&lines(LINES_N_MAX + 1), &lines(1)).is_none());
        let (long, other) = (lines(LINES_N_MAX), vec!["x".to_owned(); LINES_N_MAX]);
        assert_eq!(side_by_side(&long, &other).map(|rows| rows.len()), Some(LINES_N_MAX));
    }
}
