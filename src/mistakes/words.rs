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

/// Edits between two texts: characters put in, left out, replaced, or swapped with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().take(SHOWN_CHARS_MAX).collect();
    let right: Vec<char> = right.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=right.len()).collect()];
    let at = |rows: &[Vec<usize>], line: usize, column: usize| {
        rows.get(line).and_then(|row| row.get(column)).copied().unwrap_or(usize::MAX - 1)
    };
    for (line, from) in (1..).zip(&left) {
        rows.push(vec![line]);
        for (column, to) in (1..).zip(&right) {
            let replaced = at(&rows, line - 1, column - 1) + usize::from(from != to);
            let mut fewest =
                replaced.min(at(&rows, line - 1, column) + 1).min(at(&rows, line, column - 1) + 1);
            if line > 1 && column > 1 && left.get(line - 2) == Some(to) && right.get(column - 2) == Some(from)
            {
                fewest = fewest.min(at(&rows, line - 2, column - 2) + 1);
            }
            if let Some(row) = rows.last_mut() {
                row.push(fewest);
            }
        }
    }
    at(&rows, left.len(), right.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_key_is_offered_only_when_it_is_near() {
        let known = ["listen", "public_url", "body_bytes_max"];
        assert_eq!(nearest("listn", known), Some("listen"));
        assert_eq!(nearest("public-url", known), Some("public_url"));
        assert_eq!(nearest("ulr", ["unknown", "url"]), Some("url"));
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
        for (left, right, want) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ulr", "url", 1)]
        {
            assert_eq!(distance(left, right), want, "{left} {right}");
        }
    }
}
