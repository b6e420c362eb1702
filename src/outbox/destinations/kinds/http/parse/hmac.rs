//! `hmac`: a signature in a header, over a template around the body.

use super::headers::header_name;
use super::secret::needed_secret;
use crate::config::{Checker, Field, HmacAlgorithm, HmacConfig, HmacEncoding, Table};
use crate::outbox::destinations::kinds::http::signed::HmacTemplate;
use crate::outbox::destinations::template_field::double_braces;

/// Reads what is signed, with what key, and where it goes; mistakes are recorded.
pub(super) fn hmac(checker: &mut Checker<'_>, field: Field) -> Option<HmacConfig> {
    let mut table = field.table(checker)?;
    let header = table.needed(checker, "header", "name the header that carries the signature");
    let header = header.and_then(|field| header_name(checker, &field));
    let secret = needed_secret(checker, &mut table, "secret");
    let algorithms = [("sha256", HmacAlgorithm::Sha256), ("sha512", HmacAlgorithm::Sha512)];
    let algorithm = table.word(checker, "algorithm", &algorithms).unwrap_or(HmacAlgorithm::Sha256);
    let encodings = [("hex", HmacEncoding::Hex), ("base64", HmacEncoding::Base64)];
    let encoding = table.word(checker, "encoding", &encodings).unwrap_or(HmacEncoding::Hex);
    let prefix = table.text(checker, "prefix").map(|(_, text)| text).unwrap_or_default();
    let signed = table.text(checker, "signed");
    let timestamp_header = table.take(checker, "timestamp_header");
    let timestamp_header = timestamp_header.and_then(|field| header_name(checker, &field));
    let signed = match signed {
        Some((field, text)) => {
            signed_text(checker, &field, text, timestamp_header.is_none().then_some(&table))
        }
        None => Some("{{ body }}".to_owned()),
    };
    table.finish(checker);
    Some(HmacConfig {
        header: header?,
        secret: secret?,
        algorithm,
        encoding,
        prefix,
        signed: signed?,
        timestamp_header,
    })
}

/// `signed`, tried with messages that were made up. `timeless` is the table when no header tells the signed time.
fn signed_text(
    checker: &mut Checker<'_>,
    field: &Field,
    text: String,
    timeless: Option<&Table>,
) -> Option<String> {
    let remedy =
        "write it of {{ body }}, {{ timestamp }} and {{ idempotency_key }}; {{ body }} must be there";
    double_braces(checker, field, &text)?;
    let signed = match HmacTemplate::parse(&text) {
        Ok(signed) => signed,
        Err(why) => {
            checker.problem_shown(field, format!("is not a template: {why}"), remedy);
            return None;
        }
    };
    if !signed.has_body() {
        checker.problem_shown(field, "does not say what is signed", remedy);
        return None;
    }
    match (signed.sample(1), signed.sample(2)) {
        (Ok(first), Ok(second)) => {
            if let (true, Some(table)) = (first != second, timeless) {
                checker.missing(
                    table.path("timestamp_header"),
                    "the destination has to be told the signed time",
                );
            }
            Some(text)
        }
        (Err(why), _) | (_, Err(why)) => {
            checker.problem_shown(field, format!("cannot be filled in: {why}"), remedy);
            None
        }
    }
}
