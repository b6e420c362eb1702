//! What a person orders to be done to all that a filter finds.

use super::person::{People, PeopleError};
use crate::api::{OperationOrder, OperationView, Page};
use crate::store::decision::{Answered, Deciding, Decision, once};
use crate::store::operations::{operation_begin, operation_cancel, operation_list, operation_view};
use crate::types::Role;

impl People {
    /// Begins an operation once: what its filter finds in the person's scope is its set from then on. For operators.
    pub async fn operation_begin(
        &self,
        order: &OperationOrder,
        decision: &Decision<'_>,
    ) -> Result<Answered<OperationView>, PeopleError> {
        self.needs(Role::Operator)?;
        let (deciding, order) = (Deciding::new(&self.principal, decision).by(self.actor()), order.clone());
        let begun = once(&self.store, "operation_begin", deciding, move |mut db, deciding| {
            Box::pin(async move { operation_begin(&mut db, &order, deciding).await })
        });
        let begun = begun.await??;
        self.store.parts.operation_ordered.notify_one();
        Ok(begun)
    }

    /// Cancels an operation that runs, from its next batch on. For operators.
    pub async fn operation_cancel(
        &self,
        operation_id: &str,
        decision: &Decision<'_>,
    ) -> Result<Answered<OperationView>, PeopleError> {
        self.needs(Role::Operator)?;
        let deciding = Deciding::new(&self.principal, decision).by(self.actor());
        let operation_id = operation_id.to_owned();
        let cancelled = once(&self.store, "operation_cancel", deciding, move |mut db, deciding| {
            Box::pin(async move { operation_cancel(&mut db, &operation_id, deciding).await })
        });
        Ok(cancelled.await??)
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
