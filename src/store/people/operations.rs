//! What a person orders to be done to all that a filter finds.

use std::sync::Arc;

use super::person::{People, PeopleError};
use crate::api::{OperationChoice, OperationOrder, OperationPreview, OperationView, Page};
use crate::store::decision::{Answered, Decision, once};
use crate::store::operations::{
    BulkRules, Looking, OperationAct, operation_begin, operation_decide, operation_list, operation_preview,
    operation_preview_again, operation_view, operations_for_persons,
};
use crate::types::{Role, UnixMs};

impl People {
    /// Begins an operation once, or lets it wait for a second person: what its filter finds in the person's scope is its
    /// set from then on. For operators.
    pub async fn operation_begin(
        &self,
        order: &OperationOrder,
        rules: BulkRules,
        decision: &Decision<'_>,
    ) -> Result<Answered<OperationView>, PeopleError> {
        self.needs(Role::Operator)?;
        let (deciding, order) = (self.deciding(decision), order.clone());
        let seen = Arc::clone(&self.store.parts.seen_sets);
        let begun = once(&self.store, "operation_begin", deciding, move |mut db, deciding| {
            Box::pin(async move { operation_begin(&mut db, &order, (rules, &seen), deciding).await })
        });
        let begun = begun.await??;
        self.store.parts.operation_ordered.notify_one();
        Ok(begun)
    }

    /// What an operation on this choice would act on in the person's scope, and the acts that are possible.
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

    async fn looking(&self, now_ms: UnixMs) -> Result<Looking, PeopleError> {
        self.needs(Role::Viewer)?;
        let installation_id = self.store.installation_id().await?;
        let seen = Arc::clone(&self.store.parts.seen_sets);
        Ok(Looking { who: self.principal.clone(), now_ms, installation_id, seen })
    }

    /// Approves an operation that somebody else ordered, continues one that stopped because calls failed, or cancels one that
    /// is not over, from its next batch on. For operators.
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

    /// The newest operations that go on only after a person's decision, at most 40.
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
