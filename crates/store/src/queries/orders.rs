//! Decisions of an operator about one message, event, destination or provider; operations, which are about all rows
//! that a filter finds; and what-if: which events an operator may choose, how much of the result they may see, and the
//! row of the audit log, because a result shows bodies. The caller passes the code that runs handlers.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{EventPlace, EventQuery, OperatorError, OperatorQueries};
use crate::decision::{
    Answered, Decision, Ordered, Pausable, event_decide, message_decide, once, pause_decide,
};
use crate::operations::{
    BulkRules, OperationAct, PreviewContext, operation_begin, operation_decide, operation_list,
    operation_preview, operation_preview_again, operation_view, operations_for_persons,
};
use crate::trial::CommittedEvent;
use hooklatch_contract::{
    OperationChoice, OperationOrder, OperationPreview, OperationView, OrderResult, Page, WhatIfEffect,
    WhatIfEvent, WhatIfView,
};
use hooklatch_core::types::{EventKey, Name, Role, UnixMs};

/// Most effects of one event that are listed.
const EFFECTS_N_MAX: usize = 100;

impl OperatorQueries {
    /// Carries out an order once, records it, and keeps its answer, all in one transaction. For operators, about what
    /// is in their scope: the provider of an event, the provider and the destination of a message, a destination.
    pub async fn decide(
        &self,
        ordered: &Ordered,
        decision: &Decision<'_>,
    ) -> Result<Answered<OrderResult>, OperatorError> {
        self.needs(Role::Operator)?;
        let op = match ordered {
            Ordered::Message { .. } => "message_decide",
            Ordered::Event { key, .. } => {
                self.needs_provider(key.provider.as_str())?;
                "event_decide"
            }
            Ordered::Destination { name, .. } => {
                self.needs_destination(name.as_str())?;
                "pause_decide"
            }
            Ordered::Provider { name, .. } => {
                self.needs_provider(name.as_str())?;
                "pause_decide"
            }
        };
        let (ordered, deciding) = (ordered.clone(), self.deciding(decision));
        let decided = once(&self.store, op, deciding, move |mut db, deciding| {
            Box::pin(async move {
                let db = &mut db;
                match ordered {
                    Ordered::Message { id, act } => message_decide(db, id, act, deciding).await,
                    Ordered::Event { key, act } => event_decide(db, &key, act, deciding).await,
                    Ordered::Destination { name, act, until_ms } => {
                        pause_decide(db, (Pausable::Destination, &name), (act, until_ms), deciding).await
                    }
                    Ordered::Provider { name, act, until_ms } => {
                        pause_decide(db, (Pausable::Provider, &name), (act, until_ms), deciding).await
                    }
                }
            })
        });
        Ok(decided.await??)
    }

    /// Begins an operation once, or lets it wait for a second operator: what its filter finds in the operator's scope
    /// is its set from then on. For operators.
    pub async fn operation_begin(
        &self,
        order: &OperationOrder,
        rules: BulkRules,
        decision: &Decision<'_>,
    ) -> Result<Answered<OperationView>, OperatorError> {
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
    ) -> Result<OperationPreview, OperatorError> {
        let (choice, looking) = (choice.clone(), self.preview_context(now_ms).await?);
        Ok(snapshot!(self.store, "operation_preview", |db| {
            operation_preview(db, &choice, &looking).await
        })?)
    }

    /// The rows that an operation that was ordered has left to act on.
    pub async fn operation_preview_again(
        &self,
        operation_id: &str,
        now_ms: UnixMs,
    ) -> Result<OperationPreview, OperatorError> {
        let (id, looking) = (operation_id.to_owned(), self.preview_context(now_ms).await?);
        snapshot!(self.store, "operation_preview_again", |db| {
            operation_preview_again(db, &id, &looking).await
        })?
        .ok_or(OperatorError::NotFound)
    }

    async fn preview_context(&self, now_ms: UnixMs) -> Result<PreviewContext, OperatorError> {
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
    ) -> Result<Answered<OperationView>, OperatorError> {
        self.needs(Role::Operator)?;
        let (id, deciding) = (operation_id.to_owned(), self.deciding(decision));
        let decided = once(&self.store, "operation_decide", deciding, move |mut db, deciding| {
            Box::pin(async move { operation_decide(&mut db, &id, act, deciding).await })
        });
        let decided = decided.await??;
        self.store.parts.operation_ordered.notify_one();
        Ok(decided)
    }

    /// The newest operations that go on only after an operator's decision, at most 40.
    pub async fn operations_for_persons(&self) -> Result<Vec<OperationView>, OperatorError> {
        self.needs(Role::Viewer)?;
        let who = self.principal.clone();
        Ok(alone!(self.store, operators, "operations_for_persons", |db| operations_for_persons(db, &who)
            .await)?)
    }

    /// One operation with its progress.
    pub async fn operation(&self, operation_id: &str) -> Result<OperationView, OperatorError> {
        self.needs(Role::Viewer)?;
        let (id, who) = (operation_id.to_owned(), self.principal.clone());
        alone!(self.store, operators, "operation_view", |db| operation_view(db, &id, &who).await)?
            .ok_or(OperatorError::NotFound)
    }

    /// The newest operations, before the one with the id `before`.
    pub async fn operations(
        &self,
        before: Option<&str>,
        limit: u32,
    ) -> Result<Page<OperationView>, OperatorError> {
        self.needs(Role::Viewer)?;
        let (before, who) = (before.map(str::to_owned), self.principal.clone());
        Ok(alone!(self.store, operators, "operation_list", |db| {
            operation_list(db, before.as_deref(), limit, &who).await
        })?)
    }

    /// What `run` makes of one event.
    pub async fn what_if_one<F: Future<Output = WhatIfEvent>>(
        &self,
        key: &EventKey,
        now_ms: UnixMs,
        run: impl FnOnce(CommittedEvent) -> F,
    ) -> Result<WhatIfView, OperatorError> {
        self.needs(Role::Operator)?;
        self.needs_event(key)?;
        let found = self.store.event_committed(key).await?.ok_or(OperatorError::NotFound)?;
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
    ) -> Result<WhatIfView, OperatorError> {
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
    async fn record_what_if(&self, view: &WhatIfView, now_ms: UnixMs) -> Result<(), OperatorError> {
        let entry =
            |event: &WhatIfEvent| self.entry("what_if", "").on_event(&event.provider, &event.event_id);
        self.record(view.items.iter().map(entry).collect(), now_ms).await
    }
}
