//! Content kept beside a stored event: the same signed text under other ids, and other content under the same id. A
//! sender with one signed request could repeat it without end, so only a limited number has a row; further ones are
//! counted. This module has their places and the views of operators; `admission/beside.rs` writes them.

use sha2::{Digest, Sha256};

use super::db::{DbResult, Executor};
use super::event::{StoredPayload, stored_body};
use super::handle::Store;
#[cfg(any(test, feature = "testing"))]
use super::{
    db::StoreError,
    event::{EventRow, events_with},
};
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{BodyDigest, EventKey};

/// Most copies under other ids that are kept of the same signed text.
const REPLAYS_N_MAX: u8 = 16;
/// Most other contents that are kept of one event.
const CONFLICTS_N_MAX: u8 = 16;
/// Beginning of the ids of kept conflicts: no id that a sender gave begins so.
const CONFLICT: &str = "conflict:";

/// A content that was kept beside an event, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptContent {
    /// Its headers as a JSON object, secrets and signatures blanked.
    pub headers: String,
    /// Bytes of its body as received, except for the values that were not to be stored.
    pub body: Vec<u8>,
    /// Length of that body, also where it does not open.
    pub body_bytes_n: u64,
    /// Id of the key that it is sealed with; `None`: it is stored in the clear.
    pub key_id: Option<String>,
    /// Reason why headers and body are empty here although they are kept: they do not open.
    pub unopened: Option<String>,
    /// Number of values that were replaced before it was stored; 0: all of the body was. `None`: it is as received.
    pub redacted_n: Option<u32>,
}

impl KeptContent {
    /// What operators see of a stored one: also that it does not open.
    fn of(stored: StoredPayload, event: &EventKey, ring: &KeyRing) -> Self {
        let redacted_n = stored.redacted_n.map(|n| u32::try_from(n).unwrap_or_default());
        let key_id = stored.key_id.clone();
        let body_bytes_n = KeyRing::clear_bytes_n(key_id.is_some(), stored.body_bytes_n());
        let (headers, body, unopened) = match stored.shown(event, ring) {
            Ok((headers, body)) => (headers, body, None),
            Err(error) => ("{}".to_owned(), Vec::new(), Some(error.to_string())),
        };
        Self { headers, body, body_bytes_n, key_id, unopened, redacted_n }
    }
}

/// Other contents of an event that are kept, for operators.
#[cfg(any(test, feature = "testing"))]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflicts {
    /// The events that were kept, each under an id of its own, the oldest first.
    pub kept: Vec<(EventRow, Option<KeptContent>)>,
    /// Number of further ones that were received and not kept, copies included.
    pub unkept_n: u64,
}

/// The replay keys of the copies that may be kept of a signed text, so that the index which keeps the first one alone
/// bounds the others: digests that no signed text has.
pub(super) fn replay_places(text: &BodyDigest) -> Vec<BodyDigest> {
    let place =
        |n: u8| Sha256::new_with_prefix("replayed").chain_update(text).chain_update([n]).finalize().into();
    (0..REPLAYS_N_MAX).map(place).collect()
}

/// The ids of the contents that may be kept beside an event, so that the latch bounds them: their replay keys are those
/// of their own signed texts, which may not be sent again under another id either.
pub(crate) fn conflict_ids(first_event_id: &str) -> Vec<String> {
    let id =
        |n: u8| Sha256::new_with_prefix(CONFLICT).chain_update(first_event_id).chain_update([n]).finalize();
    (0..CONFLICTS_N_MAX).map(|n| format!("{CONFLICT}{}", hex::encode(id(n)))).collect()
}

/// What the row of a kept conflict says, before the id that stands.
const OTHER_CONTENT: &str = "other content under ";

/// The text of a kept conflict's row.
pub(super) fn conflict_note(first_event_id: &str) -> String {
    format!("{OTHER_CONTENT}{first_event_id}")
}

/// The id beside which this event is kept, by its row's `note`; `None` for a text that only looks like one.
pub(crate) fn first_event_id<'a>(event_id: &str, note: Option<&'a str>) -> Option<&'a str> {
    note?.strip_prefix(OTHER_CONTENT).filter(|first| is_beside(event_id, first))
}

/// True when `event_id` is of a content that is kept beside an event.
pub(super) fn is_beside(event_id: &str, first_event_id: &str) -> bool {
    event_id.starts_with(CONFLICT) && conflict_ids(first_event_id).iter().any(|one| one == event_id)
}

impl Store {
    /// Returns the other contents received under the key of this event.
    #[cfg(any(test, feature = "testing"))]
    pub async fn event_conflicts(&self, key: &EventKey) -> Result<Conflicts, StoreError> {
        let (key, ring) = (key.clone(), self.ring.clone());
        alone!(self, operators, "event_conflicts", |db| {
            let rows = events_with(db, &key.provider, &conflict_ids(&key.event_id)).await?;
            let mut kept = Vec::with_capacity(rows.len());
            for row in rows {
                let content = event_content(db, &row.key, &ring).await?;
                kept.push((row, content));
            }
            let sql = "/* event_conflicts */ SELECT unkept_n FROM conflict_counts WHERE provider = $1 AND event_id = $2";
            let by_key = [key.provider.as_str().into(), key.event_id.as_str().into()];
            let unkept_n = db.fetch_optional(sql, &by_key).await?.map_or(Ok(0), |row| row.int("unkept_n"))?;
            Ok(Conflicts { kept, unkept_n: unkept_n.unsigned_abs() })
        })
    }

    /// The headers and bytes of an event, as long as they are kept.
    #[cfg(any(test, feature = "testing"))]
    pub async fn event_content(&self, key: &EventKey) -> Result<Option<KeptContent>, StoreError> {
        let (key, ring) = (key.clone(), self.ring.clone());
        alone!(self, operators, "event_content", |db| event_content(db, &key, &ring).await)
    }
}

pub(crate) async fn event_content(
    db: &mut Executor<'_>,
    key: &EventKey,
    ring: &KeyRing,
) -> DbResult<Option<KeptContent>> {
    let body = stored_body!("p");
    let sql = format!(
        "/* event_content */ SELECT e.event_seq, p.headers, {body} AS body, p.whole, p.key_id, p.redacted_n
         FROM processed_webhook_events e JOIN webhook_payloads p ON p.event_seq = e.event_seq
         WHERE e.provider = $1 AND e.event_id = $2"
    );
    let by_key = [key.provider.as_str().into(), key.event_id.as_str().into()];
    let Some(row) = db.fetch_optional(sql, &by_key).await? else { return Ok(None) };
    let stored = StoredPayload::of(&row, row.int("event_seq")?)?;
    Ok(stored.map(|stored| KeptContent::of(stored, key, ring)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows have them, and what is sent again has to meet those.
    #[test]
    fn places_beside_an_event_never_change_and_no_two_are_alike() {
        let ids = conflict_ids("evt_1");
        assert_eq!(ids.len(), usize::from(CONFLICTS_N_MAX));
        assert_eq!(ids[0], "conflict:b92efacc690b51f8998b5e8fad74c0734b2b6cdaafb25c4684998dd54680f477");
        assert!(ids.iter().all(|id| is_beside(id, "evt_1") && !is_beside(id, "evt_2") && id.len() <= 255));
        assert!(!is_beside("conflict:", "evt_1") && !is_beside("evt_1", "evt_1"));
        let note = conflict_note("evt_1");
        assert_eq!(first_event_id(&ids[3], Some(&note)), Some("evt_1"));
        assert_eq!(first_event_id("conflict:4", Some(&note)), None, "a stranger's own text");
        assert_eq!(first_event_id(&ids[3], Some("evt_1")).or(first_event_id(&ids[3], None)), None);
        let places = replay_places(&[7; 32]);
        assert_eq!(
            hex::encode(places[0]),
            "42070dabd81453f99775191b646b5d2cd8546a7d6ca5e5ed0deb21b256e29fba"
        );
        let all: std::collections::BTreeSet<_> =
            places.iter().chain(&replay_places(&[8; 32])).copied().collect();
        assert_eq!(all.len(), 2 * usize::from(REPLAYS_N_MAX));
        assert!(!all.contains(&[7; 32]), "no signed text has one");
    }
}
