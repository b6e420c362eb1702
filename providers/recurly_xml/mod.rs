//! Recurly in XML: unsigned, by HTTP Basic. Events are read from the same JSON as those of the kind `recurly` that have
//! one member.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).open_with(open).samples(&[
        ("new_subscription_notification", include_str!("samples/new_subscription_notification.xml")),
        (
            "canceled_subscription_notification",
            include_str!("samples/canceled_subscription_notification.xml"),
        ),
        ("billing_info_updated_notification", include_str!("samples/billing_info_updated_notification.xml")),
    ])
}

/// `{"new_subscription_notification": {…}}` of the XML, whose outermost element says what happened.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let xml = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    let root = root(xml).ok_or("the body is not XML")?;
    let notification = xml_as_json(xml, root)?;
    Ok(json!({ root: notification }).to_string().into_bytes())
}

/// The name of the outermost element: the first that is neither a declaration nor a comment.
fn root(xml: &str) -> Option<&str> {
    let start = xml.match_indices('<').find_map(|(at, _)| {
        let rest = xml.get(at + 1..)?;
        rest.starts_with(|first: char| first.is_ascii_alphabetic()).then_some(rest)
    })?;
    start.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next()
}
