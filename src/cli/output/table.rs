//! Rows of cells as aligned lines, which fit a terminal and are whole in a pipe.

use super::screen::Screen;
use super::shown::{Shown, Tone};

/// Columns of a terminal between two fields.
const GAP: &str = "  ";
/// Narrowest that a field of long texts is cut to.
const LOOSE_MIN: usize = 12;
/// Narrowest that any field is cut to, where that is still too wide.
const MIN: usize = 8;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Ids, never cut: a person copies them. A line that is too long for the terminal is continued below by it.
    Id(&'static str),
    /// Words, cut only when nothing else can be.
    Whole(&'static str),
    /// Texts, cut first where a terminal is too narrow.
    Loose(&'static str),
}

impl Column {
    fn title(self) -> &'static str {
        match self {
            Self::Id(title) | Self::Whole(title) | Self::Loose(title) => title,
        }
    }
}

/// A head and a line for each row. Without `has_head` the lines alone: what follows on a table before.
pub(crate) fn table(screen: &Screen, columns: &[Column], rows: &[Vec<Shown>], has_head: bool) -> String {
    let is_number = |n: usize| rows.first().and_then(|row| row.get(n)).is_some_and(Shown::is_number);
    let title = |(n, column): (usize, &Column)| Shown::head(column.title(), is_number(n));
    let head: Vec<Shown> = columns.iter().enumerate().map(title).collect();
    let mut widths: Vec<usize> = head.iter().map(Shown::width).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    if let Some(columns_n) = screen.columns_n {
        let is_loose = |n: usize| matches!(columns.get(n), Some(Column::Loose(_)));
        fit(&mut widths, columns_n, LOOSE_MIN, is_loose);
        fit(&mut widths, columns_n, MIN, |n| !matches!(columns.get(n), Some(Column::Id(_))));
    }
    let head = has_head.then_some(&head);
    head.into_iter().chain(rows).map(|row| line(screen, &widths, row)).collect::<Vec<_>>().join("\n")
}

/// Takes from the widest of the columns that may give, until the line fits or none of them has more to give.
fn fit(widths: &mut [usize], columns_n: usize, min: usize, may_give: impl Fn(usize) -> bool) {
    let gaps_n = GAP.len() * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps_n > columns_n {
        let givers = widths.iter_mut().enumerate().filter(|(n, width)| may_give(*n) && **width > min);
        let Some((_, widest)) = givers.max_by_key(|(_, width)| **width) else { return };
        *widest -= 1;
    }
}

fn line(screen: &Screen, widths: &[usize], row: &[Shown]) -> String {
    let mut line = String::new();
    for (n, (cell, width)) in row.iter().zip(widths).enumerate() {
        if n > 0 {
            line.push_str(GAP);
        }
        let shown = Shown::text(cell.cut(*width));
        let room = " ".repeat(width.saturating_sub(shown.width()));
        let is_last = n + 1 == row.len();
        let painted = screen.paint(cell.tone(), shown.as_str());
        let (before, after) = match (cell.is_number(), is_last) {
            (true, _) => (room.as_str(), ""),
            (false, true) => ("", ""),
            (false, false) => ("", room.as_str()),
        };
        line.extend([before, &painted, after]);
    }
    line
}

/// A line for each fact: its name, and what it is.
pub(crate) fn fields(screen: &Screen, facts: &[(&str, Shown)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, cell): &(&str, Shown)| {
        let room = " ".repeat(width - name.len());
        format!("{}{room}{GAP}{}", screen.paint(Tone::Head, name), screen.paint(cell.tone(), cell.as_str()))
    };
    facts.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(columns_n: Option<usize>) -> Screen {
        Screen { columns_n, has_colours: false, is_json: false, now_ms: 0 }
    }

    const COLUMNS: [Column; 3] = [Column::Whole("id"), Column::Whole("n"), Column::Loose("error")];

    fn rows() -> Vec<Vec<Shown>> {
        vec![
            vec![Shown::text("evt_1"), Shown::number(2), Shown::or_dash(None::<&str>)],
            vec![
                Shown::text("日本語"),
                Shown::number(1_000),
                Shown::text("the destination said something long"),
            ],
        ]
    }

    #[test]
    fn columns_are_aligned_by_what_a_terminal_shows_and_a_pipe_gets_everything() {
        let want = "id          n  error\n\
                    evt_1       2  -\n\
                    日本語  1,000  the destination said something long";
        assert_eq!(table(&screen(None), &COLUMNS, &rows(), true), want);
        assert_eq!(table(&screen(Some(200)), &COLUMNS, &rows(), true), want);
        assert_eq!(table(&screen(None), &COLUMNS, &rows(), false).lines().count(), 2);
        assert_eq!(table(&screen(None), &COLUMNS, &[], true), "id  n  error");
    }

    #[test]
    fn a_narrow_terminal_cuts_texts_before_ids() {
        let shown = table(&screen(Some(30)), &COLUMNS, &rows(), true);
        assert!(shown.ends_with("日本語  1,000  the destinatio…"), "{shown}");
        let columns = [Column::Id("id"), Column::Whole("n"), Column::Loose("error")];
        let id = "x".repeat(84);
        let long = [vec![Shown::text(&id), Shown::text("n".repeat(20)), Shown::text("y".repeat(40))]];
        for columns_n in [30, 100] {
            let shown = table(&screen(Some(columns_n)), &columns, &long, false);
            assert!(shown.starts_with(&format!("{id}  nnnnnnn…  yyyyyyy…")), "{columns_n}: {shown}");
        }
        let ids = [vec![Shown::text("x".repeat(40)), Shown::number(1), Shown::text("y".repeat(40))]];
        let shown = table(&screen(Some(30)), &COLUMNS, &ids, false);
        assert_eq!(shown, format!("{}…  1  {}…", "x".repeat(12), "y".repeat(11)));
        for columns_n in 1..60 {
            let shown = table(&screen(Some(columns_n)), &COLUMNS, &rows(), true);
            let widest = shown.lines().map(|line| Shown::text(line).width()).max().expect("a line");
            // Narrower than a few letters for each field it cannot be.
            assert!(widest <= columns_n.max(8 + 5 + 8 + 4), "{columns_n}: {shown}");
        }
    }

    #[test]
    fn colours_take_no_room_and_come_from_no_text() {
        let screen = Screen { has_colours: true, ..screen(None) };
        let rows = [
            vec![Shown::text("\u{1b}[31mred").in_tone(Tone::Good), Shown::text("x")],
            vec![Shown::text("b"), Shown::text("y")],
        ];
        let shown = table(&screen, &[Column::Whole("a"), Column::Whole("b")], &rows, false);
        assert_eq!(shown, "\u{1b}[32m\\u001b[31mred\u{1b}[0m  x\nb              y");
    }

    #[test]
    fn facts_are_aligned_by_their_names() {
        let facts = [("id", Shown::text("evt_1\n")), ("received", Shown::text("x"))];
        assert_eq!(fields(&screen(None), &facts), "id        evt_1\\u000a\nreceived  x");
    }
}
