//! Which of the events that a request would be read as are known.

use std::collections::BTreeMap;

use super::person::{People, PeopleError};
use crate::api::ExplainEvent;
use crate::store::db::{DbResult, Door};
use crate::store::event::event_state;
use crate::types::EventState;

const KNOWN: &str = "/* events_known */ SELECT event_id, state FROM processed_webhook_events
     WHERE provider = $1 AND event_id = ANY($2)";

impl People {
    /// Says of each event of this provider in which state the one stands that is kept under its id.
    pub async fn mark_known(&self, provider: &str, events: &mut [ExplainEvent]) -> Result<(), PeopleError> {
        self.needs_provider(provider)?;
        let ids = events.iter().map(|event| event.event_id.clone());
        let ids: Vec<String> = ids.filter(|id| !id.contains('\0')).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let (store, provider) = (&self.store, provider.to_owned());
        let known = alone!(store.people.events_known(&provider, ids))?;
        for event in events {
            event.known_state = known.get(&event.event_id).copied();
        }
        Ok(())
    }
}

async fn events_known(
    db: &mut Door<'_>,
    provider: &str,
    ids: Vec<String>,
) -> DbResult<BTreeMap<String, EventState>> {
    let rows = db.fetch(KNOWN, &[provider.into(), ids.into()]).await?;
    rows.iter().map(|row| Ok((row.text("event_id")?, event_state(row)?))).collect()
}
