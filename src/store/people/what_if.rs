//! What-if for people: which events they may ask about, how far they see what comes of it, and the row of the audit log,
//! because an answer shows bodies. Who runs handlers is given.

use std::time::Duration;

use tokio::time::Instant;

use super::cursor::EventPlace;
use super::events::EventQuery;
use super::person::{People, PeopleError};
use crate::api::{WhatIfEffect, WhatIfEvent, WhatIfView};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door};
use crate::store::trial::CommittedEvent;
use crate::types::{EventKey, Name, Role, UnixMs};

/// Most effects of one event that are told.
const EFFECTS_N_MAX: usize = 100;

impl People {
    /// What `run` makes of one event.
    pub async fn what_if_one<F: Future<Output = WhatIfEvent>>(
        &self,
        key: &EventKey,
        now_ms: UnixMs,
        run: impl FnOnce(CommittedEvent) -> F,
    ) -> Result<WhatIfView, PeopleError> {
        self.needs(Role::Operator)?;
        self.needs_event(key)?;
        let found = self.store.event_committed(key).await?.ok_or(PeopleError::NotFound)?;
        let mut view = WhatIfView::default();
        self.add(&mut view, run(found).await);
        self.tell(&view, now_ms).await?;
        Ok(view)
    }

    /// What `run` makes of the events that a query finds, one after the other, until `time_max` is over.
    pub async fn what_if<F: Future<Output = WhatIfEvent>>(
        &self,
        query: EventQuery,
        time_max: Duration,
        now_ms: UnixMs,
        run: impl Fn(CommittedEvent) -> F,
    ) -> Result<WhatIfView, PeopleError> {
        self.needs(Role::Operator)?;
        let until = Instant::now() + time_max;
        let page = self.event_page(query, now_ms).await?;
        let mut view = WhatIfView {
            next: page.next,
            looked_back_to_ms: page.looked_back_to_ms,
            ..WhatIfView::default()
        };
        let mut last_seq = None;
        for event in page.items {
            if let Some(seq) = last_seq.filter(|_| Instant::now() >= until) {
                view.is_out_of_time = true;
                view.next = Some(EventPlace::Before(seq).to_string());
                break;
            }
            let Ok(provider) = Name::parse(&event.provider) else { continue };
            let key = EventKey { provider, event_id: event.event_id };
            // Gone meanwhile: it is in no list any more.
            let found = match self.store.event_committed(&key).await {
                // One that cannot be read keeps nobody from the others; the log names it.
                Err(error) if error.is_damaged_row() => continue,
                found => found?,
            };
            let Some(found) = found else { continue };
            last_seq = Some(found.event_seq);
            self.add(&mut view, run(found).await);
        }
        self.tell(&view, now_ms).await?;
        Ok(view)
    }

    /// Adds what this person may see of an event.
    fn add(&self, view: &mut WhatIfView, mut event: WhatIfEvent) {
        let reach = &self.principal.destinations;
        let is_seen = |effect: &WhatIfEffect| {
            let calls = effect.was.iter().chain(&effect.now).map(|call| call.destination.as_str());
            calls.chain([effect.destination.as_str()]).all(|name| reach.has(name))
        };
        let all_n = event.effects.len();
        event.effects.retain(is_seen);
        event.hidden_effects_n = (all_n - event.effects.len()) as u64;
        event.more_effects_n = event.effects.len().saturating_sub(EFFECTS_N_MAX) as u64;
        event.effects.truncate(EFFECTS_N_MAX);
        view.add(event);
    }

    /// Says in the audit log which events were asked about. Nothing is answered before that.
    async fn tell(&self, view: &WhatIfView, now_ms: UnixMs) -> Result<(), PeopleError> {
        let entry = |event: &WhatIfEvent| AuditEntry {
            actor: self.actor(),
            action: "what_if",
            provider: Some(event.provider.clone()),
            event_id: Some(event.event_id.clone()),
            ..AuditEntry::default()
        };
        let entries: Vec<AuditEntry> = view.items.iter().map(entry).collect();
        let store = &self.store;
        Ok(together!(store.deciding.what_if_told(&entries, now_ms))?)
    }
}

async fn what_if_told(db: &mut Door<'_>, entries: &[AuditEntry], now_ms: UnixMs) -> DbResult<()> {
    append(db, now_ms, entries).await
}
