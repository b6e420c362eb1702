//! One field of a table: its text, escaped once and for all, and how it is shown.

use unicode_width::UnicodeWidthChar;

use crate::api::DeliveryView;
use crate::plain;
use crate::types::{AttemptResult, EventState, MessageState, Mood};

/// A meaning that a terminal may show as a colour. Words say the same without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Tone {
    /// Nothing to say about it.
    #[default]
    Plain,
    /// The head of a table, or a title.
    Head,
    /// It went as it should.
    Good,
    /// It waits for somebody, or for a time.
    Waits,
    /// It failed, or is broken.
    Bad,
    /// It matters less than the rest.
    Faint,
}

/// One field. Its text holds nothing that steers a terminal, or hides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shown {
    text: String,
    tone: Tone,
    is_number: bool,
}

impl Shown {
    /// A text, whoever wrote it.
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        Self { text: plain::line(text.as_ref()).into_owned(), tone: Tone::Plain, is_number: false }
    }

    /// A text, or `-` where there is none.
    pub(crate) fn or_dash(text: Option<impl AsRef<str>>) -> Self {
        text.map_or_else(|| Self::text("-").in_tone(Tone::Faint), Self::text)
    }

    /// Title of a column, which stands above figures or above texts.
    pub(super) fn head(title: &str, is_number: bool) -> Self {
        Self { is_number, ..Self::text(title).in_tone(Tone::Head) }
    }

    /// A figure: aligned to the right.
    pub(crate) fn number(number: u64) -> Self {
        Self { is_number: true, ..Self::text(crate::figures::grouped(number)) }
    }

    /// State of an event: what its handler did. That all is well only its calls can say.
    pub(crate) fn event_state(state: EventState) -> Self {
        Self::text(state.as_str()).in_mood(state.mood())
    }

    /// What became of the calls of an event, with how many of them were delivered.
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

    fn in_mood(self, mood: Mood) -> Self {
        self.in_tone(match mood {
            Mood::Good => Tone::Good,
            Mood::Busy => Tone::Plain,
            Mood::Needed => Tone::Waits,
            Mood::Bad => Tone::Bad,
            Mood::Quiet => Tone::Faint,
        })
    }

    /// The same, shown otherwise.
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

    pub(super) fn is_number(&self) -> bool {
        self.is_number
    }

    /// Columns of a terminal that it takes.
    pub(super) fn width(&self) -> usize {
        self.text.chars().map(char_width).sum()
    }

    /// The text, cut to so many columns with a `…` at its end.
    pub(super) fn cut(&self, columns_n: usize) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
