//! The reason why a request was not believed, in a word of a closed set and in a sentence with its numbers: for
//! operators. Found by trying what usually went wrong. Nothing here says what the signature should have been.

use crate::provider::ActiveProvider;
use hooklatch_verify::{RawRequest, VerifyError, compact_json, failed_at};

/// Longest body that is tried in other forms. Bytes.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// The reason why a request was not believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis {
    /// One of the reasons of `VerifyError`, or `other_secret`, `rewritten_body`, `other_url`.
    pub reason: &'static str,
    /// Sentence for people, with its numbers.
    pub detail: String,
}

impl Diagnosis {
    /// The reason that the verification itself gives.
    pub fn plain(why: &VerifyError) -> Self {
        Self { reason: failed_at(why).reason, detail: why.to_string() }
    }
}

/// Finds out what is behind a refusal. `others` are the other providers of the same kind.
pub(crate) fn diagnose<'a>(
    provider: &ActiveProvider,
    others: impl Iterator<Item = &'a ActiveProvider>,
    request: &RawRequest,
    why: &VerifyError,
) -> Diagnosis {
    let plain = Diagnosis::plain(why);
    let found = match why {
        VerifyError::Stale { age_s, .. } => return at_its_own_time(provider, request, -age_s, &plain),
        VerifyError::Future { ahead_s, .. } => return at_its_own_time(provider, request, *ahead_s, &plain),
        VerifyError::Mismatch { .. } => with_another_secret(others, request)
            .or_else(|| with_another_body(provider, request))
            .or_else(|| under_another_url(provider, request)),
        _ => None,
    };
    match found {
        Some((reason, detail)) => Diagnosis { reason, detail: format!("{}; {detail}", plain.detail) },
        None => plain,
    }
}

/// The reason that trying another secret, body or URL finds, and a sentence about it.
type Finding = (&'static str, String);

fn at_its_own_time(
    provider: &ActiveProvider,
    request: &RawRequest,
    shift_s: i64,
    plain: &Diagnosis,
) -> Diagnosis {
    let received_at_ms = request.received_at_ms.saturating_add(shift_s.saturating_mul(1_000));
    let more = match provider.verify(RawRequest { received_at_ms, ..request.clone() }) {
        Ok(verified) => format!(
            "at its own time it would be believed (secret {}): it was delayed, played again, or a clock is wrong",
            verified.secret_n() + 1
        ),
        Err(error) => format!("at its own time it would not be believed either: {error}"),
    };
    Diagnosis { reason: plain.reason, detail: format!("{}; {more}", plain.detail) }
}

fn with_another_secret<'a>(
    mut others: impl Iterator<Item = &'a ActiveProvider>,
    request: &RawRequest,
) -> Option<Finding> {
    let other = others.find(|other| other.verify(request.clone()).is_ok())?;
    let detail = format!("it matches the secret of provider `{}`", other.name());
    Some(("other_secret", detail))
}

fn with_another_body(provider: &ActiveProvider, request: &RawRequest) -> Option<Finding> {
    let body = &request.body;
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let without_newline = body.strip_suffix(b"\r\n").or_else(|| body.strip_suffix(b"\n"));
    let without_mark = body.strip_prefix(b"\xef\xbb\xbf");
    let spaced = compact_json(body).map(|compact| spaced(&compact));
    let variants = [
        ("with a trailing newline removed", without_newline.map(<[u8]>::to_vec)),
        ("with a newline at its end", Some([body, b"\n".as_slice()].concat())),
        ("with LF instead of CRLF", Some(without_carriage_returns(body))),
        ("without its byte order mark", without_mark.map(<[u8]>::to_vec)),
        ("serialised again without white space", compact_json(body)),
        ("serialised again with a blank after `,` and `:`", spaced),
        ("serialised again with indentation", indented(body)),
    ];
    variants.into_iter().find_map(|(how, variant)| {
        let variant = variant.filter(|variant| variant.as_slice() != body)?;
        provider.verify(RawRequest { body: variant.into(), ..request.clone() }).ok()?;
        let detail = format!("the body {how} is what was signed: something rewrote it on the way");
        Some(("rewritten_body", detail))
    })
}

fn under_another_url(provider: &ActiveProvider, request: &RawRequest) -> Option<Finding> {
    if !provider.spec().has_signed_url() {
        return None;
    }
    let url = &request.url;
    let swapped = match url.strip_prefix("https://") {
        Some(rest) => Some(format!("http://{rest}")),
        None => url.strip_prefix("http://").map(|rest| format!("https://{rest}")),
    };
    let slashed = Some(url.strip_suffix('/').map_or_else(|| format!("{url}/"), str::to_owned));
    let bare = url.split_once('?').map(|(url, _)| url.to_owned());
    [swapped, slashed, bare].into_iter().flatten().find_map(|url| {
        provider.verify(RawRequest { url: url.clone(), ..request.clone() }).ok()?;
        let detail = format!("it was signed for {url}: see `server.public_url`");
        Some(("other_url", detail))
    })
}

fn without_carriage_returns(body: &[u8]) -> Vec<u8> {
    let pairs = body.iter().zip(body.iter().skip(1).map(Some).chain([None]));
    pairs.filter(|(byte, next)| !(**byte == b'\r' && *next == Some(&b'\n'))).map(|(byte, _)| *byte).collect()
}

/// Compact JSON with a blank after each comma and colon between its parts, as Python writes it.
fn spaced(compact: &[u8]) -> Vec<u8> {
    let (mut out, mut is_text, mut is_escaped) = (Vec::with_capacity(compact.len() * 9 / 8), false, false);
    for byte in compact {
        out.push(*byte);
        if !is_text && matches!(byte, b',' | b':') {
            out.push(b' ');
        }
        is_text ^= *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
    }
    out
}

fn indented(body: &[u8]) -> Option<Vec<u8>> {
    let json: serde_json::Value = serde_json::from_slice(body).ok()?;
    serde_json::to_vec_pretty(&json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_again_as_others_write_it() {
        assert_eq!(spaced(br#"{"a":[1,2],"b":"x,y:\"z\""}"#), br#"{"a": [1, 2], "b": "x,y:\"z\""}"#);
        assert_eq!(without_carriage_returns(b"a\r\nb\rc\r\n"), b"a\nb\rc\n");
    }
}
