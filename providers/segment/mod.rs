//! Segment: an HMAC-SHA-1 over the body; of a batch, over its first event alone.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("track", include_str!("samples/track.json")),
        ("identify", include_str!("samples/identify.json")),
        ("page", include_str!("samples/page.json")),
        ("delete", include_str!("samples/delete.json")),
    ])
}

const NAME: &str = "x-signature";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let signature = decode_hex(deciding_header(&request.headers, NAME)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(NAME, "it is not hexadecimal"))?;
    let content =
        content(&request.body).ok_or_else(|| VerifyError::malformed("body", "the batch has no event"))?;
    let is_signed = |secret: &str| same(&hmac(Hash::Sha1, secret.as_bytes(), &[&content]), &signature);
    let secret_n = keys.secrets().position(is_signed).ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&content]))
}

fn content(body: &[u8]) -> Option<Vec<u8>> {
    if body.trim_ascii_start().starts_with(b"[") {
        compact_json(json_elements(body, "")?.first()?)
    } else {
        Some(body.to_vec())
    }
}

/// A batch is read where the operator accepts what stands behind its first event.
fn open(keys: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let is_batch = body.trim_ascii_start().starts_with(b"[");
    if is_batch && keys.settings().text("batches") != Some("accept") {
        return Err(
            "of a batch the first event alone is signed: turn batching off, or set `batches = \"accept\"`"
                .to_owned(),
        );
    }
    Ok(body.to_vec())
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.secrets().next().ok_or(SignError::NoSigningKey)?;
    let content = content(body).ok_or_else(|| SignError::Body("the batch has no event".to_owned()))?;
    Ok(Signed::json(body.to_vec()).with(NAME, hex_text(&hmac(Hash::Sha1, secret.as_bytes(), &[&content]))))
}
