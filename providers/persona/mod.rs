//! Persona: an HMAC over time and body; while a secret is rotated, two of them, each with its own time.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("inquiry.completed", include_str!("samples/inquiry.completed.json")),
        ("inquiry.approved", include_str!("samples/inquiry.approved.json")),
        ("verification.passed", include_str!("samples/verification.passed.json")),
    ])
}

const NAME: &str = "persona-signature";
/// Most pairs that are tried; two are sent during a rotation.
const PAIRS_N_MAX: usize = 4;

/// `t=<s>,v1=<hex>`, several separated by blanks: a signature counts with the time of its own pair alone.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let value = deciding_header(&request.headers, NAME)?;
    let mut is_any = false;
    for pair in value.split(' ').filter(|pair| !pair.is_empty()).take(PAIRS_N_MAX) {
        let parts = pair.split_once(',');
        let parts = parts.and_then(|(time, mac)| Some((time.strip_prefix("t=")?, mac.strip_prefix("v1=")?)));
        let Some((time, mac)) = parts.filter(|(time, _)| is_number(time)) else { continue };
        let Some(mac) = decode_hex(mac) else { continue };
        is_any = true;
        let signed: [&[u8]; 3] = [time.as_bytes(), b".", &request.body];
        if let Some(secret_n) = keys.mac_matches(&signed, &mac) {
            // Persona bounds the age nowhere; an operator may.
            if keys.is_age_bounded() {
                check_timestamp(keys, TimeUnit::S, NAME, time, request.received_at_ms)?;
            }
            return Ok(Authenticated::of(secret_n, &signed).at(time));
        }
    }
    if is_any {
        Err(VerifyError::mismatch(keys))
    } else {
        Err(VerifyError::malformed(NAME, "it holds no `t=…,v1=…` in hexadecimal"))
    }
}

/// Digits alone, so that `time.body` can be cut in one way.
fn is_number(text: &str) -> bool {
    (1..=15).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let time = at.now_s.to_string();
    let mac = keys.mac(&[time.as_bytes(), b".", body]).ok_or(SignError::NoSigningKey)?;
    Ok(Signed::json(body.to_vec()).with(NAME, format!("t={time},v1={}", hex_text(&mac))))
}
