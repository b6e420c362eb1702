//! PayPal: RSA over the transmission, the webhook's id and the CRC-32 of the body, by a certificate whose URL the
//! request names.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("PAYMENT.AUTHORIZATION.CREATED", include_str!("samples/PAYMENT.AUTHORIZATION.CREATED.json")),
        ("PAYMENT.SALE.COMPLETED", include_str!("samples/PAYMENT.SALE.COMPLETED.json")),
        ("PAYMENT.CAPTURE.COMPLETED", include_str!("samples/PAYMENT.CAPTURE.COMPLETED.json")),
        ("CHECKOUT.ORDER.APPROVED", include_str!("samples/CHECKOUT.ORDER.APPROVED.json")),
        ("BILLING.SUBSCRIPTION.CREATED", include_str!("samples/BILLING.SUBSCRIPTION.CREATED.json")),
        ("PAYMENT.CAPTURE.DENIED", include_str!("samples/PAYMENT.CAPTURE.DENIED.json")),
        ("PAYMENT.CAPTURE.PENDING", include_str!("samples/PAYMENT.CAPTURE.PENDING.json")),
        ("PAYMENT.CAPTURE.REFUNDED", include_str!("samples/PAYMENT.CAPTURE.REFUNDED.json")),
        ("BILLING.SUBSCRIPTION.ACTIVATED", include_str!("samples/BILLING.SUBSCRIPTION.ACTIVATED.json")),
        ("BILLING.SUBSCRIPTION.CANCELLED", include_str!("samples/BILLING.SUBSCRIPTION.CANCELLED.json")),
        (
            "BILLING.SUBSCRIPTION.PAYMENT.FAILED",
            include_str!("samples/BILLING.SUBSCRIPTION.PAYMENT.FAILED.json"),
        ),
        ("CUSTOMER.DISPUTE.CREATED", include_str!("samples/CUSTOMER.DISPUTE.CREATED.json")),
        ("BILLING.SUBSCRIPTION.EXPIRED", include_str!("samples/BILLING.SUBSCRIPTION.EXPIRED.json")),
        ("BILLING.SUBSCRIPTION.SUSPENDED", include_str!("samples/BILLING.SUBSCRIPTION.SUSPENDED.json")),
        ("BILLING.SUBSCRIPTION.UPDATED", include_str!("samples/BILLING.SUBSCRIPTION.UPDATED.json")),
        ("CHECKOUT.ORDER.COMPLETED", include_str!("samples/CHECKOUT.ORDER.COMPLETED.json")),
        ("CUSTOMER.DISPUTE.RESOLVED", include_str!("samples/CUSTOMER.DISPUTE.RESOLVED.json")),
        ("CUSTOMER.DISPUTE.UPDATED", include_str!("samples/CUSTOMER.DISPUTE.UPDATED.json")),
        ("INVOICING.INVOICE.PAID", include_str!("samples/INVOICING.INVOICE.PAID.json")),
        ("PAYMENT.AUTHORIZATION.VOIDED", include_str!("samples/PAYMENT.AUTHORIZATION.VOIDED.json")),
        ("PAYMENT.CAPTURE.REVERSED", include_str!("samples/PAYMENT.CAPTURE.REVERSED.json")),
        ("PAYMENT.SALE.REFUNDED", include_str!("samples/PAYMENT.SALE.REFUNDED.json")),
        ("VAULT.PAYMENT-TOKEN.CREATED", include_str!("samples/VAULT.PAYMENT-TOKEN.CREATED.json")),
    ])
}

const SIGNATURE: &str = "paypal-transmission-sig";
const TIME: &str = "paypal-transmission-time";
const CERT_URL: &str = "paypal-cert-url";
const ALGORITHM: &str = "paypal-auth-algo";

/// The signed text identifies the transmission, and of the body a CRC-32 alone: other bodies with it are easy to make.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let header = |name| deciding_header(&request.headers, name);
    if header(ALGORITHM)? != "SHA256withRSA" {
        return Err(VerifyError::malformed(ALGORITHM, "it is not SHA256withRSA"));
    }
    let signature = decode_base64(header(SIGNATURE)?);
    let signature = signature.ok_or_else(|| VerifyError::malformed(SIGNATURE, "it is not base64"))?;
    let id = header("paypal-transmission-id")?;
    let time = header(TIME)?;
    if id.contains('|') || time.contains('|') {
        return Err(VerifyError::malformed("paypal-transmission-id", "the time could be read in two ways"));
    }
    // PayPal bounds its age nowhere; the operator may.
    if keys.is_age_bounded() {
        check_timestamp(keys, TimeUnit::Rfc3339, TIME, time, request.received_at_ms)?;
    }
    let certificate = certificate(request, keys)?;
    let message = format!("{id}|{time}|{}|{}", keys.setting("webhook_id")?, crc32(&request.body));
    if certificate.key.verifies(PublicScheme::RsaSha256, message.as_bytes(), &signature) {
        Ok(Authenticated::of(0, &[message.as_bytes()]).at(time))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// The certificate from the settings, else the one that was fetched from the URL: of PayPal's name, and valid now.
fn certificate(request: &RawRequest, keys: &Keys) -> Result<Certificate, VerifyError> {
    let url = deciding_header(&request.headers, CERT_URL)?;
    if !is_of_paypal(url) {
        return Err(VerifyError::malformed(CERT_URL, "it is not on a host of PayPal"));
    }
    let pinned = keys.settings().text("certificate_pem").map(std::borrow::Cow::Borrowed);
    let text = pinned.map_or_else(|| keys.key_text("certificate_pem", url), Ok)?;
    let certificate = Certificate::parse(&text);
    let certificate =
        certificate.ok_or_else(|| VerifyError::NoKey("its certificate cannot be read".to_owned()))?;
    let is_named = certificate.names.iter().any(|name| is_signer(name));
    if is_named && certificate.is_valid_at(request.received_at_ms.div_euclid(1_000)) {
        Ok(certificate)
    } else {
        Err(VerifyError::NoKey("its certificate is not PayPal's for messages, or not valid now".to_owned()))
    }
}

/// `https://` and a host of PayPal, without user or port.
fn is_of_paypal(url: &str) -> bool {
    let Some((host, _)) = url.strip_prefix("https://").and_then(|rest| rest.split_once('/')) else {
        return false;
    };
    is_plain(host) && (host == "paypal.com" || host.ends_with(".paypal.com"))
}

fn is_signer(name: &str) -> bool {
    name.starts_with("messageverificationcerts") && name.ends_with(".paypal.com") && is_plain(name)
}

fn is_plain(host: &str) -> bool {
    host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
}

/// Under a URL of PayPal's that is never fetched: the certificate is in the settings.
fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let time = rfc3339_text(at.now_s);
    let webhook_id = keys.setting("webhook_id").map_err(|_| SignError::NoSigningKey)?;
    let message = format!("{}|{time}|{webhook_id}|{}", at.id, crc32(body));
    let signature = keys.sign_public(PublicScheme::RsaSha256, message.as_bytes())?;
    Ok(Signed::json(body.to_vec())
        .with("paypal-transmission-id", at.id.as_str())
        .with(TIME, time)
        .with(ALGORITHM, "SHA256withRSA")
        .with(CERT_URL, "https://api.paypal.com/v1/notifications/certs/hooklatch-dev")
        .with(SIGNATURE, base64_text(&signature)))
}

#[cfg(test)]
mod tests {
    use super::{is_of_paypal, is_signer};

    #[test]
    fn certificates_are_taken_from_paypal_alone() {
        assert!(is_of_paypal("https://api.paypal.com/v1/notifications/certs/x"));
        for bad in [
            "http://api.paypal.com/x",
            "https://api.paypal.com@evil.example/x",
            "https://api.paypal.com.evil.example/x",
            "https://evilpaypal.com/x",
            "https://evil.example\\.paypal.com/x",
            "https://api.paypal.com:444/x",
            "",
        ] {
            assert!(!is_of_paypal(bad), "{bad}");
        }
        assert!(is_signer("messageverificationcerts.sandbox.paypal.com") && !is_signer("www.paypal.com"));
    }
}
