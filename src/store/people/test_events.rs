//! Test events: who made them, in the audit log before they are there.

use super::person::{People, PeopleError};
use crate::api::TestEventView;
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door};
use crate::types::{EventKey, Name, Role, UnixMs};

impl People {
    /// Refuses who does not reach this provider.
    pub fn reaches_provider(&self, provider: &Name) -> Result<(), PeopleError> {
        self.needs_provider(provider.as_str())
    }

    /// Records who makes these test events. False when the first of them is there already: then nothing is recorded.
    pub async fn note_test_events(
        &self,
        made: &TestEventView,
        reason: &str,
        now_ms: UnixMs,
    ) -> Result<bool, PeopleError> {
        self.needs(Role::Operator)?;
        self.needs_provider(&made.provider)?;
        let provider = Name::parse(&made.provider).map_err(|_| PeopleError::NotFound)?;
        let event_id = made.event_ids.first().cloned().unwrap_or_default();
        if self.store.event_get(&EventKey { provider, event_id }).await?.is_some() {
            return Ok(false);
        }
        let action = if made.route { "test_event_route" } else { "test_event" };
        let entry = |event_id: &String| AuditEntry {
            actor: self.actor(),
            action,
            provider: Some(made.provider.clone()),
            event_id: Some(event_id.clone()),
            detail: reason.to_owned(),
            ..AuditEntry::default()
        };
        let entries: Vec<AuditEntry> = made.event_ids.iter().map(entry).collect();
        let store = &self.store;
        together!(store.deciding.test_events_noted(&entries, now_ms))?;
        Ok(true)
    }
}

async fn test_events_noted(db: &mut Door<'_>, entries: &[AuditEntry], now_ms: UnixMs) -> DbResult<()> {
    append(db, now_ms, entries).await
}
