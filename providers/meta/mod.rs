//! Meta: an entry may hold many changes or messages, and each of them is an event of its own.
//!
//! Which of them share an entry is chance, and a retry may group them otherwise: so every entry is read as one that
//! holds a single change or message, in the shape that Meta gives to one.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).open_with(open).samples(&[
        ("page.feed", include_str!("samples/page.feed.json")),
        (
            "whatsapp_business_account.messages",
            include_str!("samples/whatsapp_business_account.messages.json"),
        ),
        (
            "whatsapp_business_account.messages.statuses",
            include_str!("samples/whatsapp_business_account.messages-status.json"),
        ),
        ("instagram.comments", include_str!("samples/instagram.comments.json")),
        ("page.message", include_str!("samples/page.message.json")),
        ("page.postback", include_str!("samples/page.postback.json")),
        ("page.read", include_str!("samples/page.read.json")),
        ("user.photos", include_str!("samples/user.photos.json")),
    ])
}

/// The lists of an entry whose elements are events.
const LISTS: [&str; 4] = ["/changes", "/messaging", "/standby", "/changed_fields"];
/// Most bytes that an entry may have beside its list, as every one of its events has them again.
const REST_BYTES_MAX: usize = 4_096;

fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    let Some(entries) = json_elements(body, "/entry") else { return Ok(body.to_vec()) };
    let mut single = Vec::with_capacity(body.len());
    for entry in entries {
        for part in split(entry) {
            single.extend_from_slice(if single.is_empty() { b"[" } else { b"," });
            single.extend_from_slice(&part);
        }
    }
    if single.is_empty() {
        return Ok(body.to_vec());
    }
    single.push(b']');
    json_with(body, "/entry", &single).ok_or_else(|| "its entries cannot be told apart".to_owned())
}

/// The entry once for each element of its list; as it is where it has one element or none.
fn split(entry: &[u8]) -> Vec<Vec<u8>> {
    let several = |pointer: &&str| json_elements(entry, pointer).filter(|elements| elements.len() > 1);
    let found = LISTS.iter().find_map(|pointer| Some((json_raw(entry, pointer)?, several(pointer)?)));
    let Some((list, elements)) = found else { return vec![entry.to_vec()] };
    let from = list.as_ptr().addr().saturating_sub(entry.as_ptr().addr());
    let (before, after) = (entry.get(..from), entry.get(from.saturating_add(list.len())..));
    match (before, after) {
        (Some(before), Some(after)) if before.len() + after.len() <= REST_BYTES_MAX => {
            elements.into_iter().map(|one| [before, b"[", one, b"]", after].concat()).collect()
        }
        _ => vec![entry.to_vec()],
    }
}
