//! Output of the commands of the operator API: tables and fields for people, JSON for programs.
//!
//! A [`Screen`] describes the output: a terminal or a pipe, its width, with colours or without. A [`Shown`] is one
//! field, whose text is escaped when it is created. [`table`] and [`fields`] align; [`with_times`] adds times to the
//! milliseconds of an answer.

use std::io::{IsTerminal, Write};

use clap::ColorChoice;
use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use super::shared::{note_closed_pipe, say};
use hooklatch_contract::DeliveryView;
use hooklatch_core::config::Environment;
use hooklatch_core::plain::{self, Plain};
use hooklatch_core::times::{format_moment, rfc3339};
use hooklatch_core::types::{AttemptResult, Clock, EventState, MessageState, Mood};

/// The place where a command prints.
#[derive(Debug, Clone)]
pub(crate) struct Screen {
    /// Columns of the terminal; `None` for a pipe or a file, where nothing is cut.
    pub(crate) columns_n: Option<usize>,
    /// True when tones are shown as colours.
    pub(crate) has_colours: bool,
    /// True when the output is JSON.
    pub(crate) is_json: bool,
    /// The current time, to which shown times are relative.
    pub(crate) now_ms: i64,
}

impl Screen {
    /// The stdout of this process.
    pub(crate) fn of_process(env: &Environment, choice: ColorChoice, is_json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        let columns_n = if is_terminal { terminal_columns() } else { None };
        let has_colours = wants_colours(env, choice, is_terminal) && !is_json;
        Self { columns_n, has_colours, is_json, now_ms: Clock::system().now_ms() }
    }

    /// The text in its tone. It must be free of control characters.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Head => "1",
            Tone::Good => "32",
            Tone::Waits => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
        };
        if self.has_colours && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// A time, as a field.
    pub(crate) fn time(&self, at_ms: i64) -> Shown {
        Shown::text(format_moment(at_ms, self.now_ms))
    }

    /// A time, or `-` where there is none.
    pub(crate) fn time_or_dash(&self, at_ms: Option<i64>) -> Shown {
        at_ms.map_or_else(|| Shown::or_dash(None::<&str>), |ms| self.time(ms))
    }

    /// Prints lines that consist of escaped fields.
    pub(crate) fn print(&self, lines: &str) {
        if self.has_colours {
            note_closed_pipe(Plain::new(std::io::stdout(), true).write_all(format!("{lines}\n").as_bytes()));
        } else {
            say(lines);
        }
    }
}

fn wants_colours(env: &Environment, choice: ColorChoice, is_terminal: bool) -> bool {
    let is_unwanted = env.get("NO_COLOR").is_some_and(|text| !text.is_empty());
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_terminal && !is_unwanted && env.get("TERM") != Some("dumb"),
    }
}

/// Columns of the terminal; `None` when they are unknown.
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns_n| *columns_n > 0)
}

/// A meaning that a terminal may show as a colour. The text says the same without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// No special meaning.
    #[default]
    Plain,
    /// The head of a table, or a title.
    Head,
    /// Success.
    Good,
    /// It waits for an operator, or for a time.
    Waits,
    /// A failure or a fault.
    Bad,
    /// Less important than the rest.
    Faint,
}

/// One field. Its text is free of control and invisible characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    text: String,
    tone: Tone,
    is_number: bool,
}

impl Shown {
    /// Any text, also one that a stranger wrote.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self { text: plain::line(text.as_ref()).into_owned(), tone: Tone::Plain, is_number: false }
    }

    /// A text, or `-` where there is none.
    pub(crate) fn or_dash(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(|| Self::text("-").in_tone(Tone::Faint), Self::text)
    }

    /// A figure: aligned to the right.
    pub(crate) fn number(number: u64) -> Self {
        Self { is_number: true, ..Self::text(hooklatch_core::figures::grouped(number)) }
    }

    /// State of an event: the result of its handler. Whether all is well depends on its calls, too.
    pub(crate) fn event_state(state: EventState) -> Self {
        Self::text(state.as_str()).in_mood(state.mood())
    }

    /// Delivery state of an event's calls, with how many of them were delivered.
    pub(crate) fn delivery(delivery: &DeliveryView) -> Self {
        let word = delivery.state.as_str().replace('_', " ");
        let part = format!(" {}/{}", delivery.delivered_n, delivery.messages_n);
        let is_part = delivery.delivered_n < delivery.messages_n;
        Self::text(if is_part { word + &part } else { word }).in_mood(delivery.state.mood())
    }

    /// State of a message.
    pub(crate) fn message_state(state: MessageState) -> Self {
        Self::text(state.as_str()).in_mood(state.mood())
    }

    /// Result of an attempt; `under way` while there is none.
    pub(crate) fn attempt(result: Option<AttemptResult>) -> Self {
        let Some(result) = result else { return Self::text("under way") };
        Self::text(result.as_str()).in_mood(result.mood())
    }

    /// The field in the tone of a mood.
    fn in_mood(self, mood: Mood) -> Self {
        self.in_tone(match mood {
            Mood::Good => Tone::Good,
            Mood::Busy => Tone::Plain,
            Mood::Needed => Tone::Waits,
            Mood::Bad => Tone::Bad,
            Mood::Quiet => Tone::Faint,
        })
    }

    pub(crate) fn in_tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The text as it is shown.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The tone that it is shown in.
    pub(crate) fn tone(&self) -> Tone {
        self.tone
    }

    /// The text in its tone.
    pub(crate) fn painted(&self, screen: &Screen) -> String {
        screen.paint(self.tone, &self.text)
    }

    /// Columns of a terminal that it takes.
    fn width(&self) -> usize {
        self.text.chars().map(char_width).sum()
    }

    /// The text, cut to so many columns with a `…` at its end.
    fn cut(&self, columns_n: usize) -> String {
        if self.width() <= columns_n {
            return self.text.clone();
        }
        let (mut kept, mut taken_n) = (String::new(), 0);
        for c in self.text.chars() {
            // One column is for the `…`.
            if taken_n + char_width(c) + 1 > columns_n {
                break;
            }
            taken_n += char_width(c);
            kept.push(c);
        }
        kept.push('…');
        kept
    }
}

fn char_width(c: char) -> usize {
    c.width().unwrap_or(0)
}

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
    let is_number = |n: usize| rows.first().and_then(|row| row.get(n)).is_some_and(|cell| cell.is_number);
    let title = |(n, column): (usize, &Column)| Shown {
        is_number: is_number(n),
        ..Shown::text(column.title()).in_tone(Tone::Head)
    };
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

/// Narrows the widest of the columns that may be cut, until the line fits or all are at their minimum.
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
        let painted = screen.paint(cell.tone, shown.as_str());
        let (before, after) = match (cell.is_number, is_last) {
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
        format!("{}{room}{GAP}{}", screen.paint(Tone::Head, name), cell.painted(screen))
    };
    facts.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Ends of the names of times in the contract. Lengths of time end in `_ms` too.
const TIMES: [&str; 7] = ["at_ms", "until_ms", "from_ms", "to_ms", "now_ms", "since_ms", "created_before_ms"];

fn is_time(name: &str) -> bool {
    TIMES.iter().any(|end| name.ends_with(end))
}

/// The answer with `received_at` beside each `received_at_ms`.
pub(crate) fn with_times(mut answer: Value) -> Value {
    add_times(&mut answer);
    answer
}

fn add_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_times),
        Value::Object(members) => {
            members.values_mut().for_each(add_times);
            let times: Vec<(String, String)> = members
                .iter()
                .filter(|(name, _)| is_time(name))
                .filter_map(|(name, at)| Some((name.strip_suffix("_ms")?.to_owned(), rfc3339(at.as_i64()?)?)))
                .collect();
            for (name, at) in times {
                members.entry(name).or_insert(Value::String(at));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_configured_otherwise() {
        #[track_caller]
        fn check(env: &[(&str, &str)], choice: ColorChoice, is_terminal: bool, want: bool) {
            let env = env.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            assert_eq!(wants_colours(&env, choice, is_terminal), want, "{choice:?}");
        }
        check(&[], ColorChoice::Auto, true, true);
        check(&[], ColorChoice::Auto, false, false);
        check(&[("NO_COLOR", "1")], ColorChoice::Auto, true, false);
        check(&[("NO_COLOR", "")], ColorChoice::Auto, true, true);
        check(&[("TERM", "dumb")], ColorChoice::Auto, true, false);
        check(&[("NO_COLOR", "1")], ColorChoice::Always, false, true);
        check(&[], ColorChoice::Never, true, false);
    }

    #[test]
    fn a_tone_is_a_colour_where_there_are_colours_and_nothing_elsewhere() {
        let mut screen = Screen { columns_n: None, has_colours: true, is_json: false, now_ms: 0 };
        assert_eq!(screen.paint(Tone::Bad, "dead"), "\u{1b}[31mdead\u{1b}[0m");
        assert_eq!(
            (screen.paint(Tone::Plain, "x"), screen.paint(Tone::Good, "")),
            ("x".into(), String::new())
        );
        screen.has_colours = false;
        assert_eq!(screen.paint(Tone::Bad, "dead"), "dead");
    }

    #[test]
    fn a_text_is_as_wide_as_a_terminal_shows_it_and_is_cut_there() {
        #[track_caller]
        fn check(text: &str, width: usize, columns_n: usize, cut: &str) {
            let cell = Shown::text(text);
            assert_eq!((cell.width(), cell.cut(columns_n).as_str()), (width, cut), "{text:?}");
            assert!(Shown::text(cell.cut(columns_n)).width() <= columns_n.max(1));
        }
        check("evt_1", 5, 5, "evt_1");
        check("evt_1", 5, 4, "evt…");
        check("日本語", 6, 6, "日本語");
        check("日本語", 6, 5, "日本…");
        check("日本語", 6, 4, "日…");
        check("Zażo\u{301}łć", 6, 6, "Zażo\u{301}łć");
        check("💶💶", 4, 3, "💶…");
        check("", 0, 0, "");
        check("ab", 2, 1, "…");
    }

    #[test]
    fn no_text_of_a_stranger_is_left_as_it_was_if_it_steers_or_hides() {
        for odd in [
            "\u{1b}[31m",
            "\u{9b}31m",
            "a\nb",
            "a\tb",
            "a\0b",
            "\u{202e}x",
            "\u{200b}",
            "\u{feff}",
            "\u{2028}",
        ] {
            for cell in [Shown::text(odd), Shown::or_dash(Some(odd))] {
                assert!(!cell.as_str().chars().any(plain::is_hidden), "{odd:?}: {cell:?}");
                assert!(cell.as_str().contains("\\u"), "{cell:?}");
            }
        }
        assert_eq!(Shown::or_dash(None::<&str>).as_str(), "-");
        assert_eq!(Shown::text("a\u{202e}b").width(), 8, "as wide as what is shown for it");
    }

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
            // It cannot be narrower than a few letters for each field.
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

    #[test]
    fn a_time_stands_beside_its_milliseconds_wherever_it_is() {
        let answer = json!({
            "items": [{ "received_at_ms": 1_795_356_311_500_i64, "due_at_ms": null }],
            "looked_back_to_ms": 0, "took_ms": 12, "at_ms": "x", "next": null,
        });
        let want = json!({
            "items": [{
                "received_at_ms": 1_795_356_311_500_i64, "received_at": "2026-11-22T14:05:11.500Z", "due_at_ms": null,
            }],
            "looked_back_to_ms": 0, "looked_back_to": "1970-01-01T00:00:00.000Z", "took_ms": 12, "at_ms": "x",
            "next": null,
        });
        assert_eq!(with_times(answer), want);
    }

    /// A field that is added to the contract is either a time or a length, which is listed here.
    #[test]
    fn every_field_in_milliseconds_of_the_contract_is_known_as_a_time_or_as_a_length() {
        const LENGTHS: [&str; 10] = [
            "age_max_ms",
            "answer_within_ms",
            "first_ms",
            "key_valid_for_ms",
            "max_ms",
            "p50_ms",
            "p95_ms",
            "step_ms",
            "timeout_ms",
            "took_ms",
        ];
        let document = hooklatch_contract::document().to_string();
        let names = document.split('"').filter(|word| word.ends_with("_ms") && !word.contains(' '));
        let unknown: Vec<&str> = names
            .filter(|name| !is_time(name) && !LENGTHS.contains(name) && !name.starts_with('`'))
            .collect();
        assert_eq!(unknown, [""; 0]);
    }
}
