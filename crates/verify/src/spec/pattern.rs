//! Texts with placeholders, parsed once when a spec is read: `{timestamp}.{body}`. `{{` is a brace.

use serde::Deserialize;

use super::check::NEEDS_CODE;
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
const KNOWN: [&str; 17] = [
    "timestamp",
    "url",
    "host",
    "path",
    "path_and_query",
    "method",
    "body",
    "sha256:body",
    "sha256_base64:body",
    "secret",
    "headers",
    "header_values",
    "header:NAME",
    "json:/POINTER",
    "query:NAME",
    "setting:NAME",
    "mac",
];

fn unknown(name: &str) -> String {
    if let Some(near) = nearest(name, KNOWN) {
        return format!("`{{{name}}}` is no place that a template knows; did you mean `{{{near}}}`?");
    }
    let known = KNOWN.map(|one| format!("{{{one}}}")).join(", ");
    format!(
        "`{{{name}}}` is no place that a template knows, which are {known}; where the sender signs what none of them says, \
         {NEEDS_CODE}"
    )
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
