//! Decisions of an operator about one message, event, destination or provider.
//!
//! Orders of an operator about all rows that a filter finds.
//!
//! What-if for operators: which events they may choose, how much of the result they may see, and the row of the audit
//! log, because a result shows bodies. The caller passes the code that runs handlers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::events::EventQuery;
use super::person::{People, PeopleError};
use super::walk::EventPlace;
use crate::audit::{AuditEntry, append};
use crate::db::{DbResult, Executor, StoreError};
use crate::decision::{
    Answered, Deciding, Decision, Ordered, Pausable, Refusal, event_decide, message_decide, once,
    pause_decide,
};
use crate::operations::{
    BulkRules, OperationAct, PreviewContext, operation_begin, operation_decide, operation_list,
    operation_preview, operation_preview_again, operation_view, operations_for_persons,
};
use crate::trial::CommittedEvent;
use hooklatch_contract::{
    OperationChoice, OperationOrder, OperationPreview, OperationView, OrderResult, Page, PauseAct,
    WhatIfEffect, WhatIfEvent, WhatIfView,
};
use hooklatch_core::types::{EventKey, Name, Role, UnixMs};

impl People {
    /// Carries out an order once, records it, and keeps its answer, all in one transaction. For operators, about what
    /// is in their scope: the provider of an event, the provider and the destination of a message, a destination.
    pub async fn decide(
        &self,
        ordered: &Ordered,
        decision: &Decision<'_>,
    ) -> Result<Answered<OrderResult>, PeopleError> {
        self.needs(Role::Operator)?;
        let deciding = self.deciding(decision);
        let decided = match ordered.clone() {
            Ordered::Message { id, act } => {
                once(&self.store, "message_decide", deciding, move |mut db, deciding| {
                    Box::pin(async move { message_decide(&mut db, id, act, deciding).await })
                })
                .await?
            }
            Ordered::Event { key, act } => {
                self.needs_provider(key.provider.as_str())?;
                once(&self.store, "event_decide", deciding, move |mut db, deciding| {
                    Box::pin(async move { event_decide(&mut db, &key, act, deciding).await })
                })
                .await?
            }
            Ordered::Destination { name, act, until_ms } => {
                self.needs_destination(name.as_str())?;
                self.pause(Pausable::Destination, name, (act, until_ms), deciding).await?
            }
            Ordered::Provider { name, act, until_ms } => {
                self.needs_provider(name.as_str())?;
                self.pause(Pausable::Provider, name, (act, until_ms), deciding).await?
            }
        };
        Ok(decided?)
    }
    async fn pause(
        &self,
        what: Pausable,
        name: Name,
        order: (PauseAct, Option<UnixMs>),
        deciding: Deciding,
    ) -> Result<Result<Answered<OrderResult>, Refusal>, StoreError> {
        once(&self.store, "pause_decide", deciding, move |mut db, deciding| {
            Box::pin(async move { pause_decide(&mut db, (what, &name), order, deciding).await })
        })
        .await
    }
}

impl People {
    /// Begins an operation once, or lets it wait for a second person: what its filter finds in the operator's scope is
    /// its set from then on. For operators.
    pub async fn operation_begin(
        &self,
        order: &OperationOrder,
        rules: BulkRules,
        decision: &Decision<'_>,
    ) -> Result<Answered<OperationView>, PeopleError> {
        self.needs(Role::Operator)?;
        let (deciding, order) = (self.deciding(decision), order.clone());
        let seen = Arc::clone(&self.store.parts.preview_cache);
        let begun = once(&self.store, "operation_begin", deciding, move |mut db, deciding| {
            Box::pin(async move { operation_begin(&mut db, &order, (rules, &seen), deciding).await })
        });
        let begun = begun.await??;
        self.store.parts.operation_ordered.notify_one();
        Ok(begun)
    }

    /// What an operation on this choice would act on in the operator's scope, and the acts that are possible.
    pub async fn operation_preview(
        &self,
        choice: &OperationChoice,
        now_ms: UnixMs,
    ) -> Result<OperationPreview, PeopleError> {
        let (choice, looking, store) = (choice.clone(), self.looking(now_ms).await?, &self.store);
        Ok(snapshot!(store.operation_preview(&choice, &looking))?)
    }

    /// What an operation that was ordered acts on yet.
    pub async fn operation_preview_again(
        &self,
        operation_id: &str,
        now_ms: UnixMs,
    ) -> Result<OperationPreview, PeopleError> {
        let (operation_id, looking, store) =
            (operation_id.to_owned(), self.looking(now_ms).await?, &self.store);
        snapshot!(store.operation_preview_again(&operation_id, &looking))?.ok_or(PeopleError::NotFound)
    }

    async fn looking(&self, now_ms: UnixMs) -> Result<PreviewContext, PeopleError> {
        self.needs(Role::Viewer)?;
        let installation_id = self.store.installation_id().await?;
        let seen = Arc::clone(&self.store.parts.preview_cache);
        Ok(PreviewContext { who: self.principal.clone(), now_ms, installation_id, seen })
    }

    /// Approves an operation that another operator ordered, continues one that stopped because calls failed, or cancels
    /// one that is not over, from its next batch on. For operators.
    pub async fn operation_decide(
        &self,
        operation_id: &str,
        act: OperationAct,
        decision: &Decision<'_>,
    ) -> Result<Answered<OperationView>, PeopleError> {
        self.needs(Role::Operator)?;
        let deciding = self.deciding(decision);
        let operation_id = operation_id.to_owned();
        let decided = once(&self.store, "operation_decide", deciding, move |mut db, deciding| {
            Box::pin(async move { operation_decide(&mut db, &operation_id, act, deciding).await })
        });
        let decided = decided.await??;
        self.store.parts.operation_ordered.notify_one();
        Ok(decided)
    }

    /// The newest operations that go on only after an operator's decision, at most 40.
    pub async fn operations_for_persons(&self) -> Result<Vec<OperationView>, PeopleError> {
        self.needs(Role::Viewer)?;
        let (store, who) = (&self.store, self.principal.clone());
        Ok(alone!(store.people.operations_for_persons(&who))?)
    }

    /// One operation with its progress.
    pub async fn operation(&self, operation_id: &str) -> Result<OperationView, PeopleError> {
        self.needs(Role::Viewer)?;
        let (operation_id, who) = (operation_id.to_owned(), self.principal.clone());
        let store = &self.store;
        alone!(store.people.operation_view(&operation_id, &who))?.ok_or(PeopleError::NotFound)
    }

    /// The newest operations, before the one with the id `before`.
    pub async fn operations(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Page<OperationView>, PeopleError> {
        self.needs(Role::Viewer)?;
        let (before, who) = (before.map(str::to_owned), self.principal.clone());
        let store = &self.store;
        Ok(alone!(store.people.operation_list(before.as_deref(), limit, &who))?)
    }
}

/// Most effects of one event that are listed.
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
        self.record_what_if(&view, now_ms).await?;
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
                // One that cannot be read does not hide the others; the log names it.
                Err(error) if error.is_damaged_row() => continue,
                found => found?,
            };
            let Some(found) = found else { continue };
            last_seq = Some(found.event_seq);
            self.add(&mut view, run(found).await);
        }
        self.record_what_if(&view, now_ms).await?;
        Ok(view)
    }

    /// Adds what this operator may see of an event.
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

    /// Records in the audit log the events of a what-if, before any result is returned.
    async fn record_what_if(&self, view: &WhatIfView, now_ms: UnixMs) -> Result<(), PeopleError> {
        let entry = |event: &WhatIfEvent| AuditEntry {
            actor: self.actor(),
            action: "what_if",
            provider: Some(event.provider.clone()),
            event_id: Some(event.event_id.clone()),
            ..AuditEntry::default()
        };
        let entries: Vec<AuditEntry> = view.items.iter().map(entry).collect();
        let store = &self.store;
        Ok(together!(store.deciding.what_if_audit(&entries, now_ms))?)
    }
}

async fn what_if_audit(db: &mut Executor<'_>, entries: &[AuditEntry], now_ms: UnixMs) -> DbResult<()> {
    append(db, now_ms, entries).await
}
