//! One event's handlers, run on a thread where they may block: what would follow, or why nothing does.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::parts::WhatIfParts;
use crate::admit::dispatch::handled_in_tx;
use crate::admit::dispatched::Dispatched;
use crate::admit::entry::ProviderEntry;
use crate::admit::templates::Rendering;

use crate::handler::{Handled, HandlerError, Handlers, RawEvent};
use hooklatch_core::stop;
use hooklatch_store::{CameContent, CommittedEvent, NewMessage, trial_ends};

/// An event that its handlers are to be asked about.
pub(super) struct DryRun {
    pub parts: Arc<WhatIfParts>,
    pub entry: Arc<ProviderEntry>,
    pub event: Arc<CommittedEvent>,
    pub content: CameContent,
    /// True when a newer version of its object was received before it.
    pub is_stale: bool,
    /// True when a transactional handler takes it.
    pub is_transactional: bool,
}

/// The reason why nothing would follow.
pub(super) enum NothingFollows {
    /// The handlers answered so, or failed.
    Said(HandlerError),
    /// They could not be asked.
    NotAsked(String),
}

impl From<HandlerError> for NothingFollows {
    fn from(error: HandlerError) -> Self {
        Self::Said(error)
    }
}

impl DryRun {
    /// Runs the handlers. To be called on a thread that may be blocked.
    pub(crate) fn follow(&self) -> Result<Vec<NewMessage>, NothingFollows> {
        let (event, provider) = (&*self.event, &self.entry.provider);
        let dispatched = Dispatched {
            key: &event.key,
            event_seq: event.event_seq,
            next_place: 0,
            received_at_ms: event.view.received_at_ms,
            counted_from_ms: event.view.received_at_ms,
            created_at_ms: None,
            // As in the dispatch whose effects were committed.
            attempts_n: event.view.attempts_n.max(1),
            generation: generation(event),
            is_again: false,
            rendering: Rendering::Alone,
        };
        let content = provider.stored_content(&self.content.headers, &self.content.body);
        let seen = dispatched.seen(&event.view.event_type, content.map_err(HandlerError::Refused)?);
        let handlers = provider.handlers();
        let handled = if self.is_transactional {
            Handle::current().block_on(self.in_transaction(handlers, &seen))?
        } else {
            handlers.dispatch(&seen, self.is_stale)
        };
        let planner = &self.parts.planner;
        Ok(planner.messages(&dispatched, &seen, planner.filled(&self.entry, &dispatched, &seen, handled)?)?)
    }

    /// Runs them in a transaction that never stands.
    async fn in_transaction(&self, handlers: &Handlers, seen: &RawEvent) -> Result<Handled, NothingFollows> {
        let begun = self.parts.store.trial_begin().await;
        let mut tx = begun.map_err(|error| NothingFollows::NotAsked(error.to_string()))?;
        let handled = handled_in_tx(handlers, self.parts.handler_timeout, &mut tx, seen, self.is_stale).await;
        stop::to_end(trial_ends(tx)).await;
        Ok(handled)
    }
}

/// The generation whose effects are compared.
pub(crate) fn generation(event: &CommittedEvent) -> i32 {
    i32::try_from(event.view.generation).unwrap_or(i32::MAX)
}
