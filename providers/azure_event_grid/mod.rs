//! Azure Event Grid: a token of our own, in a header or in the query. Nothing is signed.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("Microsoft.Storage.BlobCreated", include_str!("samples/Microsoft.Storage.BlobCreated.json")),
        ("ImagePushed", include_str!("samples/ImagePushed.json")),
        ("Contoso.Items.ItemReceived", include_str!("samples/Contoso.Items.ItemReceived.json")),
    ])
}

/// A custom delivery property of the event subscription.
const NAME: &str = "x-webhook-token";
/// The value of the query, for event subscriptions without one.
const QUERY: &str = "token";

/// The header decides where it is there.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let token = match deciding_header(&request.headers, NAME) {
        Err(VerifyError::HeaderMissing(name)) => {
            query_value(&request.url, QUERY).ok_or(VerifyError::HeaderMissing(name))?
        }
        token => token?.to_owned(),
    };
    keys.token_matches(token.as_bytes()).map(Authenticated::plain).ok_or_else(|| VerifyError::mismatch(keys))
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let token = keys.secrets().next().ok_or(SignError::NoSigningKey)?.to_owned();
    Ok(Signed::json(body.to_vec()).with("aeg-event-type", "Notification").with(NAME, token))
}
