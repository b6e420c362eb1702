//! Words of others in messages: shown short and on one line, and the one that was probably meant.

/// Longest part of a value that is shown. Characters.
const SHOWN_CHARS_MAX: usize = 80;

/// `text` without control characters and cut to what fits a line.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String =
        text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// The one of `known` that `text` was probably meant to be: at most two edits away, and fewer than half of
/// its letters.
pub(crate) fn nearest<'a>(text: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (distance(text, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 2 && edits * 2 < candidate.len().max(2))
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in characters.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (line, from) in left.chars().take(SHOWN_CHARS_MAX).enumerate() {
        let mut above_left = line;
        let mut before = line + 1;
        let mut next = vec![before];
        for (to, above) in right.iter().zip(row.iter().skip(1)) {
            before = (above_left + usize::from(from != *to)).min(before + 1).min(above + 1);
            above_left = *above;
            next.push(before);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_key_is_offered_only_when_it_is_near() {
        let known = ["listen", "public_url", "body_bytes_max"];
        assert_eq!(nearest("listn", known), Some("listen"));
        assert_eq!(nearest("public-url", known), Some("public_url"));
        assert_eq!(nearest("port", known), None);
        assert_eq!(nearest("", ["on", "to"]), None);
    }

    #[test]
    fn shown_values_are_short_and_stay_on_one_line() {
        assert_eq!(shown("a\nb"), "a\u{fffd}b");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), SHOWN_CHARS_MAX + 1);
    }

    #[test]
    fn distance_counts_edits() {
        for (left, right, want) in [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3)] {
            assert_eq!(distance(left, right), want, "{left} {right}");
        }
    }
}
