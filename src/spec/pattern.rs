//! Texts with places to fill in, taken apart once when a spec is read: `{timestamp}.{body}`. `{{` is a brace.

use serde::Deserialize;

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
    /// The URL's path, without its query.
    Path,
    /// The method, upper case.
    Method,
    /// The exact bytes of the body.
    Body,
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
            "path" => Piece::Path,
            "method" => Piece::Method,
            "body" => Piece::Body,
            "headers" => Piece::Headers,
            "header_values" => Piece::HeaderValues,
            "mac" => Piece::Mac,
            _ => return Err(format!("`{{{name}}}` is no place that a template knows")),
        },
    })
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
}
