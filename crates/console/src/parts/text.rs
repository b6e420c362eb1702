//! Times, figures, states and foreign texts: as much of each as a page bears, and what a script copies of them. A state
//! is a word in a chip, with a colour that means the same.

use maud::{Markup, html};

use hooklatch_contract::{DeliveryView, EventView};
use hooklatch_core::figures::grouped;
pub(crate) use hooklatch_core::types::Mood;
use hooklatch_core::types::{AttemptResult, DeliveryState, EventState, MessageState, UnixMs, readable_id};
use hooklatch_core::{plain, times};

/// The class that gives a mood its colour.
pub(crate) fn colour(mood: Mood) -> &'static str {
    match mood {
        Mood::Good => "good",
        Mood::Busy => "busy",
        Mood::Needed => "needed",
        Mood::Bad => "bad",
        Mood::Quiet => "quiet",
    }
}

/// A word in a chip.
pub(crate) fn chip(mood: Mood, word: &str) -> Markup {
    html! { span class={ "chip " (colour(mood)) } { (word) } }
}

/// State of an event: what its handler did. That all is well only its calls can say, so it is never green.
pub(crate) fn event_chip(state: EventState) -> Markup {
    chip(state.mood(), state.as_str())
}

/// State of the calls of an event, with how many of them were delivered.
pub(crate) fn delivery_chip(delivery: &DeliveryView) -> Markup {
    let word = match delivery.state {
        DeliveryState::Settled => "settled by an operator",
        DeliveryState::None => "no calls",
        DeliveryState::NotSent => "not sent",
        DeliveryState::NoLongerKnown => "no longer known",
        state => state.as_str(),
    };
    let is_part = delivery.delivered_n < delivery.messages_n;
    html! {
        (chip(delivery.state.mood(), word))
        @if is_part { " " span class="hint" { (delivery.delivered_n) " of " (delivery.messages_n) " delivered" } }
    }
}

/// The reason why an event, or the worst of its calls, stands where it does.
pub(crate) fn event_error(event: &EventView) -> Markup {
    foreign_or_none(event.error.as_deref().or(event.delivery.error.as_deref()))
}

/// State of a message.
pub(crate) fn message_chip(state: MessageState) -> Markup {
    chip(state.mood(), state.as_str())
}

/// Result of an attempt; one under way has none.
pub(crate) fn attempt_chip(result: Option<AttemptResult>) -> Markup {
    match result {
        None => chip(Mood::Busy, "under way"),
        Some(result) => chip(result.mood(), result.as_str()),
    }
}

/// A time with how long ago it was; the date where it is not today's. The tooltip has it to the millisecond, and with
/// the script in the time of the person who looks.
pub(crate) fn moment(at_ms: UnixMs, now_ms: UnixMs) -> Markup {
    let exact = times::rfc3339(at_ms).unwrap_or_else(|| at_ms.to_string());
    html! { time datetime=(exact) title=(exact) { (times::format_moment(at_ms, now_ms).replacen(", ", " UTC, ", 1)) } }
}

/// A time, where there is one.
pub(crate) fn moment_or_none(at_ms: Option<UnixMs>, now_ms: UnixMs) -> Markup {
    at_ms.map_or_else(none, |at_ms| moment(at_ms, now_ms))
}

/// Stands where there is no value.
pub(crate) fn none() -> Markup {
    html! { span class="none" { "–" } }
}

/// A foreign text, on one line: characters that would hide or turn something around are shown as `\uXXXX`.
pub(crate) fn foreign(text: &str) -> Markup {
    html! { bdi { (plain::line(text)) } }
}

/// A foreign text, where there is one.
pub(crate) fn foreign_or_none(text: Option<&str>) -> Markup {
    text.map_or_else(none, foreign)
}

/// Longest id that is shown whole in a list, and what is left of a longer one at its begin and end. Characters.
const ID_SHOWN_N: usize = 44;
const ID_ENDS_N: (usize, usize) = (30, 10);

/// An id as people read it: a composed one by its parts, a long one without its middle. `None`: as it is.
pub(crate) fn short_id(id: &str) -> Option<String> {
    let readable = readable_id(id);
    let text = readable.as_deref().unwrap_or(id);
    let chars_n = text.chars().count();
    if chars_n <= ID_SHOWN_N {
        return readable;
    }
    let begin: String = text.chars().take(ID_ENDS_N.0).collect();
    let end: String = text.chars().skip(chars_n.saturating_sub(ID_ENDS_N.1)).collect();
    Some(format!("{begin}…{end}"))
}

/// An id as people read it, with all of it as its tooltip.
pub(crate) fn id(id: &str) -> Markup {
    match short_id(id) {
        Some(short) => html! { span title=(plain::line(id)) { (foreign(&short)) } },
        None => foreign(id),
    }
}

/// A sentence of ours about foreign requests, in which the text between backticks is code.
pub(crate) fn coded(text: &str) -> Markup {
    let is_paired = text.matches('`').count().is_multiple_of(2);
    html! {
        @if is_paired {
            @for (n, part) in text.split('`').enumerate() {
                @if n % 2 == 1 { code { (foreign(part)) } } @else if !part.is_empty() { (foreign(part)) }
            }
        } @else { (foreign(text)) }
    }
}

/// A number with a comma after each thousand; `is_more` where counting stopped there.
pub(crate) fn figure(number: u64, is_more: bool) -> Markup {
    html! { span class="figure" { (grouped(number)) @if is_more { "+" } } }
}

/// The first characters of a text, on one line, and a sign where it was longer.
pub(crate) fn brief(text: &str, chars_n_max: usize) -> Markup {
    let (shown, is_cut) = cut(text, chars_n_max);
    html! { (foreign(shown)) @if is_cut { "…" } }
}

/// The first characters of a text, where there is one.
pub(crate) fn brief_or_none(text: Option<&str>, chars_n_max: usize) -> Markup {
    text.map_or_else(none, |text| brief(text, chars_n_max))
}

/// The first characters of a text of several lines, as it was written.
pub(crate) fn brief_lines(text: &str, chars_n_max: usize) -> Markup {
    let (shown, is_cut) = cut(text, chars_n_max);
    html! {
        pre tabindex="0" { (plain::text(shown)) @if is_cut { "…" } }
    }
}

/// The first characters of a text, and whether there are more.
fn cut(text: &str, chars_n_max: usize) -> (&str, bool) {
    match text.char_indices().nth(chars_n_max) {
        Some((at, _)) => (text.split_at(at).0, true),
        None => (text, false),
    }
}

/// A text of one line with its button; `id` is its own on the page.
pub(crate) fn copied(id: &str, text: &str) -> Markup {
    html! {
        span class="taken" {
            code id=(id) { (foreign(text)) }
            button type="button" class="copy" data-copy=(id) { "Copy" }
        }
    }
}

/// A button that copies what the element of this id shows; `label` says what that is.
pub(crate) fn copy_button(id: &str, label: &str) -> Markup {
    html! { button type="button" class="copy" data-copy=(id) { (label) } }
}

/// A button that copies a text of which a page shows a part alone.
pub(crate) fn copy_whole(text: &str) -> Markup {
    let text = plain::line(text);
    html! { button type="button" class="copy" data-text=(text) aria-label={ "Copy " (text) } { "Copy" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_says_that_it_is_utc() {
        let text = |markup: Markup| markup.0.split(['<', '>']).nth(2).unwrap_or_default().to_owned();
        assert_eq!(text(moment(1_000, 61_000)), "00:00:01 UTC, 1 min ago");
        assert_eq!(text(moment(1_000, 86_400_000 * 3)), "1970-01-01 00:00:01 UTC, 2 days ago");
    }

    #[test]
    fn what_stands_between_backticks_is_code_and_text_all_the_same() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(coded(text).0, want);
        }
        check("in `a-b`", "<bdi>in </bdi><code><bdi>a-b</bdi></code>");
        check("`<b>`, \u{202e}", "<code><bdi>&lt;b&gt;</bdi></code><bdi>, \\u202e</bdi>");
        check("one ` alone", "<bdi>one ` alone</bdi>");
        check("", "");
    }

    #[test]
    fn an_id_of_parts_is_shown_by_them_and_a_long_one_without_its_middle() {
        let long = "x".repeat(70);
        for (text, want) in [
            ("evt_1", None),
            ("16:7914073381342284,7:CAPTURE,4:true", Some("7914073381342284 · CAPTURE · true".to_owned())),
            (&long, Some(format!("{}…{}", "x".repeat(30), "x".repeat(10)))),
        ] {
            assert_eq!(short_id(text), want, "{text}");
        }
        assert_eq!(
            id("7:a\"b/c/d,1:x").0,
            "<span title=\"7:a&quot;b/c/d,1:x\"><bdi>a&quot;b/c/d · x</bdi></span>"
        );
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_says_so() {
        #[track_caller]
        fn check(text: &str, want: &str) {
            assert_eq!(brief(text, 3).0, format!("<bdi>{want}"), "{text}");
        }
        check("", "</bdi>");
        check("äöü", "äöü</bdi>");
        check("äöü€", "äöü</bdi>…");
        check("<b>", "&lt;b&gt;</bdi>");
        check("a\nb", "a\\u000ab</bdi>");
        assert_eq!(brief_lines("a\n\u{202e}bc", 3).0, "<pre tabindex=\"0\">a\n\\u202e…</pre>");
    }
}
