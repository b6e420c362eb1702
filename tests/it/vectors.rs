//! Vectors have the settings that they are verified with, as a configuration has.

use hooklatch_receive::providers::builtin;
use hooklatch_receive::vectors::{Judged, judge};
use hooklatch_verify::{Hash, base64_text, hmac};
use serde_json::{Value, json};

/// A request of Box, judged with these settings.
fn judged(named_secrets: &Value) -> Judged {
    let time = "2026-01-01T00:00:00Z";
    let mac = hmac(Hash::Sha256, b"primary-secret-01", &[b"{}", time.as_bytes()]);
    let headers = json!({
        "box-signature-version": "1", "box-signature-algorithm": "HmacSHA256", "box-delivery-timestamp": time,
        "box-signature-primary": base64_text(&mac),
    });
    let vector = json!({
        "id": "box-1", "kind": "box", "settings": { "named_secrets": named_secrets }, "headers": headers,
        "body": "{}", "now": 1_767_225_600, "expect": "valid",
    });
    judge(&vector.to_string(), &builtin()).unwrap().remove(0)
}

#[test]
fn named_keys_are_written_as_in_the_configuration_or_as_collectors_write_them() {
    let good = "primary-secret-01";
    for named in [
        json!([{ "id": "primary", "key": good }]),
        json!([{ "id": "secondary", "key": "another-secret-01" }, { "id": "primary", "key": good }]),
        json!({ "id": "primary", "key": good }),
        json!({ "primary": good }),
        json!([{ "name": "primary", "secret": good }]),
        json!([{ "key_id": "primary", "secret": good }]),
    ] {
        let judged = judged(&named);
        assert_eq!((judged.verdict, judged.is_wrong), ("valid", false), "{named}: {}", judged.why);
    }
    assert_eq!(judged(&json!([{ "id": "primary", "key": "another-secret-01" }])).step, "signature");
}

#[test]
fn an_invalid_setting_of_a_vector_is_an_error() {
    for named in [json!([{ "id": "primary" }]), json!([{ "id": "primary", "value": "x" }]), json!(7)] {
        let judged = judged(&named);
        assert_eq!(judged.step, "secret", "{named}");
        assert!(judged.why.contains("`named_secrets` is neither"), "{}", judged.why);
    }
}
