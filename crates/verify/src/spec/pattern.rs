//! Texts with places, parsed once when a spec is read. A [`Pattern`] is a text that is signed or answered:
//! `{timestamp}.{body}`; `{{` is a brace. A [`Layout`] is the shape of a value that carries a signature:
//! `sha256={signature}`, `t={timestamp},v1={signature}`, `{timestamp},{signature}` (by position),
//! `{key_id}/SHA256/{signature},...` (a list of one shape).

use serde::Deserialize;

use super::misfits::NEEDS_CODE;
use super::signature::Encoding;
use hooklatch_core::mistakes::nearest;

/// A text that is signed or answered, with its places.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    text: String,
    pieces: Vec<Piece>,
}

/// One part of a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A text as it is.
    Literal(String),
    /// The signed time as its sender wrote it.
    Timestamp,
    /// The URL as the sender called it.
    Url,
    /// The URL's host, with its port where the URL names one.
    Host,
    /// The URL's path, without its query.
    Path,
    /// The URL's path and its query, as they stand in the request line.
    PathAndQuery,
    /// The method, upper case.
    Method,
    /// The exact bytes of the body.
    Body,
    /// The SHA-256 of those bytes, computed here: a header with it proves nothing.
    BodySha256(Encoding),
    /// The secret, of the schemes that hash it with the text.
    Secret,
    /// Names of headers, as the layout's `{headers}` caught them.
    Headers,
    /// The values of the headers that the layout's `{headers}` names, joined with `.`.
    HeaderValues,
    /// A header that must be there once.
    Header(String),
    /// The text at a JSON pointer.
    Json(String),
    /// A value of the query, decoded.
    Query(String),
    /// A setting of the provider.
    Setting(String),
    /// The MAC that a handshake computed.
    Mac,
}

impl Pattern {
    /// The text as it is written in the spec.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A pattern that makes an empty text.
    pub fn empty() -> Self {
        Self { text: String::new(), pieces: Vec::new() }
    }

    /// Its parts, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// True when it has this part.
    pub fn has(&self, piece: &Piece) -> bool {
        self.pieces.contains(piece)
    }

    /// True when the whole body decides about its text: the body itself, or a digest of it that is computed here.
    pub fn covers_body(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Body | Piece::BodySha256(_)))
    }
}

impl Default for Pattern {
    fn default() -> Self {
        Self { text: "{body}".to_owned(), pieces: vec![Piece::Body] }
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.as_str();
        while let Some((literal, tail)) = rest.split_once('{') {
            if !literal.is_empty() {
                pieces.push(Piece::Literal(literal.to_owned()));
            }
            if let Some(tail) = tail.strip_prefix('{') {
                pieces.push(Piece::Literal("{".to_owned()));
                rest = tail;
                continue;
            }
            let (name, tail) = tail.split_once('}').ok_or_else(|| format!("`{text}` has a `{{` too many"))?;
            pieces.push(piece(name)?);
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(Self { text, pieces })
    }
}

fn piece(name: &str) -> Result<Piece, String> {
    Ok(match name.split_once(':') {
        Some(("header", name)) => Piece::Header(name.to_ascii_lowercase()),
        Some(("json", pointer)) if pointer.starts_with('/') => Piece::Json(pointer.to_owned()),
        Some(("query", name)) => Piece::Query(name.to_owned()),
        Some(("setting", name)) => Piece::Setting(name.to_owned()),
        _ => match name {
            "timestamp" => Piece::Timestamp,
            "url" => Piece::Url,
            "host" => Piece::Host,
            "path" => Piece::Path,
            "path_and_query" => Piece::PathAndQuery,
            "method" => Piece::Method,
            "body" => Piece::Body,
            "sha256:body" => Piece::BodySha256(Encoding::Hex),
            "sha256_base64:body" => Piece::BodySha256(Encoding::Base64),
            "secret" => Piece::Secret,
            "headers" => Piece::Headers,
            "header_values" => Piece::HeaderValues,
            "mac" => Piece::Mac,
            _ => return Err(unknown(name)),
        },
    })
}

/// Places as they are written, for people.
const KNOWN: &str = "timestamp url host path path_and_query method body sha256:body sha256_base64:body \
                     secret headers header_values header:NAME json:/POINTER query:NAME setting:NAME mac";

fn unknown(name: &str) -> String {
    if let Some(near) = nearest(name, KNOWN.split(' ')) {
        return format!("`{{{name}}}` is no place that a template knows; did you mean `{{{near}}}`?");
    }
    let known = KNOWN.replace(' ', "}, {");
    format!(
        "`{{{name}}}` is no place that a template knows, which are {{{known}}}; where the sender signs what none of them says, \
         {NEEDS_CODE}"
    )
}

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

    #[test]
    fn a_template_is_taken_apart_once_and_unknown_places_are_refused() {
        let template = Pattern::try_from("v0:{timestamp}:{header:X-Id}{json:/a}".to_owned()).expect("good");
        let want = [
            Piece::Literal("v0:".to_owned()),
            Piece::Timestamp,
            Piece::Literal(":".to_owned()),
            Piece::Header("x-id".to_owned()),
            Piece::Json("/a".to_owned()),
        ];
        assert_eq!(template.pieces(), want);
        for bad in ["{nothing}", "{json:a}", "{body", "{}"] {
            assert!(Pattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

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
