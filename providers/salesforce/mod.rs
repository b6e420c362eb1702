//! Salesforce: outbound messages in SOAP, several notifications each. Nothing is signed: a token of our own is
//! believed, and then the id of the organization.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    let kind = Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign);
    kind.open_with(open).samples(&[
        ("Opportunity", include_str!("samples/Opportunity.xml")),
        ("IO__Order__c", include_str!("samples/IO__Order__c.xml")),
        ("Contact", include_str!("samples/Contact.xml")),
    ])
}

/// What a proxy before us may set, where the endpoint's URL is to hold no token.
const NAME: &str = "x-webhook-token";
/// The value of the endpoint URL's query.
const QUERY: &str = "token";
const ORGANIZATIONS: &str = "organization_ids";
/// Characters of an id that tell it from others; three more are its checksum, which not every place shows.
const ID_LENGTH: usize = 15;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let token = match deciding_header(&request.headers, NAME) {
        Err(VerifyError::HeaderMissing(name)) => {
            query_value(&request.url, QUERY).ok_or(VerifyError::HeaderMissing(name))?
        }
        token => token?.to_owned(),
    };
    let secret_n = keys.token_matches(token.as_bytes()).ok_or_else(|| VerifyError::mismatch(keys))?;
    // Only what was taken in is acknowledged: Salesforce keeps the rest, and shows it, and sends it again.
    let refused = |why| VerifyError::malformed("envelope", why);
    let message = opened(&request.body).map_err(|_| refused("it cannot be read as Salesforce's SOAP"))?;
    if message.pointer("/Notification/0").is_none() {
        return Err(refused("it has no notification"));
    }
    let sender = message.get("OrganizationId").and_then(|id| id.as_str()?.get(..ID_LENGTH));
    let mut known = keys.settings().all(ORGANIZATIONS).filter_map(|one| one.value.reveal().get(..ID_LENGTH));
    if sender.is_some_and(|sender| known.any(|known| known == sender)) {
        Ok(Authenticated::plain(secret_n))
    } else {
        Err(VerifyError::malformed("OrganizationId", "it is missing, or of another organization"))
    }
}

fn sign(keys: &Keys, body: &[u8], _: &SignAt) -> Result<Signed, SignError> {
    let token = keys.secrets().next().ok_or(SignError::NoSigningKey)?.to_owned();
    let headers = vec![("content-type".to_owned(), "text/xml; charset=utf-8".to_owned())];
    Ok(Signed { headers, body: body.to_vec() }.with(NAME, token))
}

fn notifications(body: &[u8]) -> Result<serde_json::Value, String> {
    let xml = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    let mut envelope = xml_as_json(xml, "soapenv:Envelope")?;
    envelope
        .pointer_mut("/soapenv:Body/notifications")
        .map(serde_json::Value::take)
        .ok_or_else(|| "the envelope has no notifications".to_owned())
}

/// What is common to the notifications, and a list of them, each with what sort of record it is about. The session of
/// Salesforce's user is left out: its holder acts as that user.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    opened(body).map(|message| message.to_string().into_bytes())
}

fn opened(body: &[u8]) -> Result<serde_json::Value, String> {
    let mut whole = notifications(body)?;
    let members = whole.as_object_mut().ok_or("the message is empty")?;
    members.remove("SessionId");
    let list = match members.remove("Notification") {
        Some(serde_json::Value::Array(list)) => list,
        Some(one) => vec![one],
        None => Vec::new(),
    };
    let list: Vec<serde_json::Value> = list.into_iter().map(notification).collect();
    members.insert("Notification".to_owned(), list.into());
    Ok(whole)
}

/// `sf:` before the record's fields says nothing: all of them are Salesforce's.
fn notification(mut one: serde_json::Value) -> serde_json::Value {
    let Some(record) = one.get_mut("sObject").and_then(serde_json::Value::as_object_mut) else { return one };
    let plain = |name: &str| name.strip_prefix("sf:").unwrap_or(name).to_owned();
    let object = record.remove("xsi:type").and_then(|name| Some(plain(name.as_str()?)));
    let fields = std::mem::take(record).into_iter().map(|(name, value)| (plain(&name), value));
    record.extend(fields);
    if let Some(members) = one.as_object_mut() {
        members.insert("object".to_owned(), object.into());
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = include_str!("samples/IO__Order__c.xml");

    #[test]
    fn one_notification_or_several_are_a_list_without_the_session() {
        let one =
            SAMPLE.replace("<SessionId xsi:nil=\"true\"/>", "<SessionId>00D!acts.as.the.user</SessionId>");
        let (from, to) = (one.find("   <Notification>"), one.find("  </notifications>"));
        let (from, to) = (from.expect("a notification"), to.expect("its end"));
        let notification = one.get(from..to).expect("the notification").to_owned();
        let three = one.replace(&notification, &notification.repeat(3));
        for (text, notifications_n) in [(&one, 1), (&three, 3)] {
            let message = opened(text.as_bytes()).expect("a message");
            let list = message["Notification"].as_array().expect("a list");
            assert_eq!(list.len(), notifications_n);
            for one in list {
                assert_eq!(
                    *one,
                    json!({ "Id": "04l__ID__", "object": "IO__Order__c", "sObject": { "Id": "a01d0000006qftoAAA" } })
                );
            }
            assert!(!message.to_string().contains("acts.as.the.user"));
        }
    }

    #[test]
    fn a_record_that_was_deleted_meanwhile_leaves_a_notification_without_data() {
        let (from, to) = (SAMPLE.find("<sObject"), SAMPLE.find("</sObject>"));
        let (from, to) = (from.expect("a record"), to.expect("its end"));
        let text = SAMPLE.replace(SAMPLE.get(from..to).expect("the record"), "<sObject>");
        let message = opened(text.as_bytes()).expect("a message");
        assert_eq!(message["Notification"], json!([{ "Id": "04l__ID__", "sObject": "" }]));
    }
}
