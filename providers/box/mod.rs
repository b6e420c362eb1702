//! Box: two keys, each for a header of its own, so that one can be changed while the other signs.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("FILE.UPLOADED", include_str!("samples/FILE.UPLOADED.json")),
        ("FILE.DELETED", include_str!("samples/FILE.DELETED.json")),
        ("FOLDER.CREATED", include_str!("samples/FOLDER.CREATED.json")),
    ])
}

/// Which key signs which header.
const HEADERS: [(&str, &str); 2] =
    [("primary", "box-signature-primary"), ("secondary", "box-signature-secondary")];
const TIME: &str = "box-delivery-timestamp";

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let headers = &request.headers;
    for (name, want) in [("box-signature-version", "1"), ("box-signature-algorithm", "HmacSHA256")] {
        if deciding_header(headers, name)? != want {
            return Err(VerifyError::malformed(name, "it has another value than we know"));
        }
    }
    let time = deciding_header(headers, TIME)?;
    check_timestamp(keys, TimeUnit::Rfc3339, TIME, time, request.received_at_ms)?;
    let is_signed = |(key, header): &(&str, &str)| {
        let secret = keys.settings().of_id("named_secrets", key)?;
        let signature = decode_base64(deciding_header(headers, header).ok()?)?;
        let mac = hmac(Hash::Sha256, secret.as_bytes(), &[&request.body, time.as_bytes()]);
        same(&mac, &signature).then_some(())
    };
    if !HEADERS.iter().any(|(_, header)| headers.contains_key(*header)) {
        return Err(VerifyError::HeaderMissing(HEADERS[0].1.to_owned()));
    }
    let secret_n = HEADERS.iter().position(|one| is_signed(one).is_some());
    let secret_n = secret_n.ok_or_else(|| VerifyError::mismatch(keys))?;
    Ok(Authenticated::of(secret_n, &[&request.body, time.as_bytes()]).at(time))
}

fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let secret = keys.settings().of_id("named_secrets", "primary").ok_or(SignError::NoSigningKey)?;
    let time = rfc3339_text(at.now_s);
    let mac = hmac(Hash::Sha256, secret.as_bytes(), &[body, time.as_bytes()]);
    let signed = Signed::json(body.to_vec()).with("box-delivery-id", at.id.clone()).with(TIME, time);
    let signed = signed.with("box-signature-version", "1").with("box-signature-algorithm", "HmacSHA256");
    Ok(signed.with(HEADERS[0].1, base64_text(&mac)))
}
