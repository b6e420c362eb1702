//! Large events: their bodies are stored in parts before the transaction that latches them begins.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::context::AdmitContext;
use super::room::LARGE_BYTES;
use hooklatch_core::types::IncomingEvent;
use hooklatch_store::{Candidate, StoreError};

/// Stores the body of a large event in parts, under the number that the event is to be latched with, and returns the
/// event that refers to them. To be followed by [`delete_unlatched`], whatever became of the event.
pub(super) async fn stored_in_parts(
    context: &AdmitContext,
    event: &Arc<IncomingEvent>,
    event_seq: i64,
) -> Result<Arc<IncomingEvent>, StoreError> {
    let is_large = event.body.len() > LARGE_BYTES && event.redacted.is_none();
    if !is_large || context.store.event_is_known(event).await? {
        return Ok(Arc::clone(event));
    }
    match context.store.body_parts_write(event_seq, event, context.clock.now_ms()).await {
        Ok(parts_n) => {
            Ok(Arc::new(IncomingEvent { stored_parts_n: Some(parts_n), ..IncomingEvent::clone(event) }))
        }
        Err(failure) => {
            delete(context, event_seq).await;
            Err(failure)
        }
    }
}

/// Does so for the large events of a batch, and returns those with their numbers. Each part is bounded in time, and all of
/// them may take longer than a handler may: readiness looks at the batch before and after them.
pub(super) async fn store_large(
    context: &AdmitContext,
    candidates: &mut [Candidate],
) -> Result<Vec<(i64, Arc<IncomingEvent>)>, StoreError> {
    context.under_way.note(true, None);
    let mut stored = Vec::new();
    for one in candidates.iter_mut().filter(|one| one.event.body.len() > LARGE_BYTES) {
        one.event = stored_in_parts(context, &one.event, one.event_seq).await?;
        stored.push((one.event_seq, Arc::clone(&one.event)));
    }
    context.under_way.note(true, Some(Instant::now()));
    Ok(stored)
}

/// Deletes the parts of events that were not latched: copies, and those whose transaction failed.
pub(super) async fn delete_unlatched(
    context: &AdmitContext,
    events: impl Iterator<Item = (i64, &Arc<IncomingEvent>)>,
) {
    for (event_seq, _) in events.filter(|(_, event)| event.stored_parts_n.is_some()) {
        delete(context, event_seq).await;
    }
}

async fn delete(context: &AdmitContext, event_seq: i64) {
    if let Err(failure) = context.store.body_parts_delete(event_seq).await {
        warn!(error = %failure, "could not delete the parts of a large body; pruning does");
    }
}
