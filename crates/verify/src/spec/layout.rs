//! The layout of a value that carries a signature, parsed once: `sha256={signature}`, `t={timestamp},v1={signature}`,
//! `{timestamp},{signature}` (by position), `{key_id}/SHA256/{signature},...` (a list of one shape).

use serde::Deserialize;

/// Most places of one item.
const SLOTS_N_MAX: usize = 3;

/// The shape by which a header's text is parsed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Layout {
    text: String,
    separator: Option<char>,
    /// True when a blank follows the separator when we write; none is needed to read.
    is_spaced: bool,
    is_positional: bool,
    items: Vec<Vec<LayoutPart>>,
}

/// The parts that a place of a layout can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutSlot {
    /// Place of the signed time.
    Timestamp,
    /// A signature; several are tried.
    Signature,
    /// Names of signed headers, separated by blanks.
    Headers,
    /// Id of the key that signed.
    KeyId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LayoutPart {
    Literal(String),
    Slot(LayoutSlot),
}

impl Layout {
    /// The text as it is written in the spec.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// True when some item has this place.
    pub fn has(&self, slot: LayoutSlot) -> bool {
        self.items.iter().flatten().any(|part| *part == LayoutPart::Slot(slot))
    }

    /// Splits `value` and passes every place that is filled to `take`, item by item, with the
    /// item's number. False when a text that is no list has another shape; items of a list that have another
    /// shape are of versions that we do not know, and passed over.
    pub fn read<'a>(&self, value: &'a str, mut take: impl FnMut(usize, LayoutSlot, &'a str)) -> bool {
        let Some(separator) = self.separator else {
            let Some(item) = self.items.first() else { return false };
            return hand_over(matched(item, value), 0, &mut take);
        };
        for (n, text) in value.split(separator).enumerate() {
            let text = text.trim();
            if self.is_positional {
                if let Some(item) = self.items.get(n).or(self.items.last()) {
                    hand_over(matched(item, text), n, &mut take);
                }
                continue;
            }
            self.items.iter().any(|item| hand_over(matched(item, text), n, &mut take));
        }
        true
    }

    /// The text with its places filled, for signing.
    pub fn written(&self, fill: impl Fn(LayoutSlot) -> String) -> String {
        let item = |parts: &Vec<LayoutPart>| -> String {
            let part = |part: &LayoutPart| match part {
                LayoutPart::Literal(text) => text.clone(),
                LayoutPart::Slot(slot) => fill(*slot),
            };
            parts.iter().map(part).collect()
        };
        // When a signature has several shapes, the first is written.
        let is_other = |(n, parts): &(usize, &Vec<LayoutPart>)| {
            let is_signature =
                |parts: &Vec<LayoutPart>| parts.contains(&LayoutPart::Slot(LayoutSlot::Signature));
            is_signature(parts) && self.items.iter().take(*n).any(is_signature)
        };
        let kept = self.items.iter().enumerate().filter(|one| !is_other(one));
        let items: Vec<String> = kept.map(|(_, parts)| item(parts)).collect();
        let blank = if self.is_spaced { " " } else { "" };
        items.join(&self.separator.map(|one| format!("{one}{blank}")).unwrap_or_default())
    }
}

type MatchedParts<'a> = [Option<(LayoutSlot, &'a str)>; SLOTS_N_MAX];

fn hand_over<'a>(
    caught: Option<MatchedParts<'a>>,
    n: usize,
    take: &mut impl FnMut(usize, LayoutSlot, &'a str),
) -> bool {
    let Some(caught) = caught else { return false };
    for (slot, text) in caught.into_iter().flatten() {
        take(n, slot, text);
    }
    true
}

/// The parts of `text` in the places of `item`; `None` when it has another shape.
fn matched<'a>(item: &[LayoutPart], text: &'a str) -> Option<MatchedParts<'a>> {
    let mut caught: MatchedParts<'a> = [None; SLOTS_N_MAX];
    let mut free = caught.iter_mut();
    let mut rest = text;
    for (n, part) in item.iter().enumerate() {
        match part {
            LayoutPart::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            LayoutPart::Slot(slot) => {
                let end = match item.get(n + 1) {
                    Some(LayoutPart::Literal(next)) => rest.find(next.as_str())?,
                    _ => rest.len(),
                };
                let (value, tail) = rest.split_at_checked(end)?;
                *free.next()? = Some((*slot, value));
                rest = tail;
            }
        }
    }
    rest.is_empty().then_some(caught)
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            text: "{signature}".to_owned(),
            separator: None,
            is_spaced: false,
            is_positional: false,
            items: vec![vec![LayoutPart::Slot(LayoutSlot::Signature)]],
        }
    }
}

impl TryFrom<String> for Layout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let separator = [',', ';'].into_iter().find(|one| text.contains(&format!("}}{one}")));
        let stem = separator.and_then(|one| text.strip_suffix(&format!("{one}..."))).unwrap_or(&text);
        let is_spaced = separator.is_some_and(|one| text.contains(&format!("}}{one} ")));
        let items: Vec<Vec<LayoutPart>> = match separator {
            Some(separator) => stem.split(separator).map(|one| item(one.trim())).collect::<Result<_, _>>()?,
            None => vec![item(stem)?],
        };
        let is_positional =
            items.len() > 1 && items.iter().all(|item| matches!(item.as_slice(), [LayoutPart::Slot(_)]));
        let layout = Self { text, separator, is_spaced, is_positional, items };
        if !layout.has(LayoutSlot::Signature) {
            return Err(format!("signature.layout: `{}` needs a {{signature}}", layout.text));
        }
        Ok(layout)
    }
}

fn item(text: &str) -> Result<Vec<LayoutPart>, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((literal, tail)) = rest.split_once('{') {
        if !literal.is_empty() {
            parts.push(LayoutPart::Literal(literal.to_owned()));
        }
        let (name, tail) =
            tail.split_once('}').ok_or_else(|| format!("signature.layout: `{text}` is not closed"))?;
        parts.push(LayoutPart::Slot(match name {
            "timestamp" => LayoutSlot::Timestamp,
            "signature" => LayoutSlot::Signature,
            "headers" => LayoutSlot::Headers,
            "key_id" => LayoutSlot::KeyId,
            _ => return Err(format!("signature.layout: `{{{name}}}` is no place; {{signature}} is one")),
        }));
        rest = tail;
    }
    if !rest.is_empty() {
        parts.push(LayoutPart::Literal(rest.to_owned()));
    }
    let is_clear = parts.windows(2).all(|pair| !matches!(pair, [LayoutPart::Slot(_), LayoutPart::Slot(_)]));
    let slots_n = parts.iter().filter(|part| matches!(part, LayoutPart::Slot(_))).count();
    if is_clear && slots_n <= SLOTS_N_MAX {
        Ok(parts)
    } else {
        Err(format!("signature.layout: `{text}` cannot be taken apart"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(layout: &str, value: &str, want: Option<&[(usize, LayoutSlot, &str)]>) {
        let layout = Layout::try_from(layout.to_owned()).expect("a layout");
        let mut got = Vec::new();
        let is_read = layout.read(value, |n, slot, text| got.push((n, slot, text)));
        assert_eq!(is_read.then_some(got.as_slice()), want, "{value}");
    }

    #[test]
    fn layouts_are_prefixes_lists_and_positions() {
        use LayoutSlot::{KeyId, Signature, Timestamp};
        check("sha256={signature}", "sha256=ab", Some(&[(0, Signature, "ab")]));
        check("sha256={signature}", "sha1=ab", None);
        check("V2, Signature: {signature}", "V2, Signature: ab", Some(&[(0, Signature, "ab")]));
        let list = "t={timestamp},v1={signature}";
        check(
            list,
            "t=1, v1=a,v0=b,v1=c",
            Some(&[(0, Timestamp, "1"), (1, Signature, "a"), (3, Signature, "c")]),
        );
        check(
            "ts={timestamp};h1={signature}",
            "h1=a;ts=1",
            Some(&[(0, Signature, "a"), (1, Timestamp, "1")]),
        );
        check(
            "{timestamp},{signature}",
            "1,a,b",
            Some(&[(0, Timestamp, "1"), (1, Signature, "a"), (2, Signature, "b")]),
        );
        check(
            "{key_id}/SHA256/{signature},...",
            "6/SHA1/x,7/SHA256/y",
            Some(&[(1, KeyId, "7"), (1, Signature, "y")]),
        );
        check("v1={signature},...", "v2=x", Some(&[]));
        check(
            "sha256={signature},{signature},...",
            "sha256=a,b",
            Some(&[(0, Signature, "a"), (1, Signature, "b")]),
        );
        let layout = Layout::try_from("sha256={signature},{signature},...".to_owned()).expect("a layout");
        assert_eq!(layout.written(|_| "ab".to_owned()), "sha256=ab");
        let spaced = "t={timestamp}, v1={signature}";
        check(spaced, "t=1,v1=a", Some(&[(0, Timestamp, "1"), (1, Signature, "a")]));
        let layout = Layout::try_from(spaced.to_owned()).expect("a layout");
        assert_eq!(layout.written(|_| "1".to_owned()), "t=1, v1=1");
    }

    #[test]
    fn a_layout_that_cannot_be_read_back_is_refused() {
        for bad in ["", "x={timestamp}", "{signature}{key_id}", "{other}{signature}"] {
            assert!(Layout::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
