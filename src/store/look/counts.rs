//! How many stand where. What is done is not counted: it only grows.

use super::{Filter, odd};
use crate::store::db::{DbResult, Door, Row};
use crate::store::message::MessageCount;
use crate::store::{Store, StoreError};
use crate::types::{MessageState, Name};

impl Store {
    /// How many messages `filter` finds; its state must be set.
    pub async fn message_count(&self, filter: &Filter) -> Result<u64, StoreError> {
        let filter = filter.clone();
        alone!(self.people.message_count(&filter)).map(i64::unsigned_abs)
    }

    /// How many messages of each destination stand where; `done` and `discarded` are not counted.
    pub async fn message_counts(&self) -> Result<Vec<MessageCount>, StoreError> {
        alone!(self.reader.message_counts())
    }
}

async fn message_count(db: &mut Door<'_>, filter: &Filter) -> DbResult<i64> {
    macro_rules! counted {
        ($table:literal) => {
            concat!(
                "/* message_count */ SELECT COUNT(*) AS n FROM ",
                $table,
                " m WHERE m.state = $1 AND (CAST($2 AS TEXT) IS NULL OR m.destination = $2)
                   AND (CAST($3 AS TEXT) IS NULL OR EXISTS (SELECT 1 FROM processed_webhook_events e
                        WHERE e.event_seq = m.message_id / 1024 AND e.provider = $3))"
            )
        };
    }
    let is_finished = matches!(filter.state, Some(MessageState::Done | MessageState::Discarded));
    let sql = if is_finished { counted!("outbox_finished") } else { counted!("outbox_queue") };
    let values = [
        filter.state.map(MessageState::as_str).into(),
        filter.destination.as_ref().map(Name::as_str).into(),
        filter.provider.as_ref().map(Name::as_str).into(),
    ];
    db.fetch_one(sql, &values).await?.int("n")
}

async fn message_counts(db: &mut Door<'_>) -> DbResult<Vec<MessageCount>> {
    // The words of the two indexes, so that neither table nor sort is needed.
    let rows = db
        .fetch(
            "/* message_counts */ SELECT destination, state, COUNT(*) AS n, MIN(visible_at_ms) AS oldest_ms
             FROM outbox_queue WHERE state IN ('ready', 'leased') GROUP BY destination, state
             UNION ALL
             SELECT destination, state, COUNT(*) AS n, MIN(visible_at_ms) AS oldest_ms
             FROM outbox_queue WHERE state IN ('held', 'dead', 'waiting') GROUP BY destination, state",
            &[],
        )
        .await?;
    let count = |row: &Row| {
        let state = row.text("state")?;
        Ok(MessageCount {
            destination: row.text("destination")?,
            state: MessageState::parse(&state).ok_or_else(|| odd("state", &state))?,
            messages_n: row.int("n")?.unsigned_abs(),
            oldest_visible_at_ms: row.int("oldest_ms")?,
        })
    };
    rows.iter().map(count).collect()
}
