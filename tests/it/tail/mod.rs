//! The live tail: what viewers are told from one look for all of them, and the same through the real listener.

mod hub;
mod served;

use crate::database::Database;
use crate::look::run;

/// Events of `provider` with the numbers from `first` on.
async fn add_events(database: &Database, provider: &str, first: i64, n: i64) {
    let blob = if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "sha256('')" };
    let last = first + n - 1;
    run(
        database,
        format!(
            "WITH RECURSIVE c (n) AS (SELECT CAST({first} AS BIGINT) UNION ALL SELECT n + 1 FROM c WHERE n < {last})
             INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard,
                 event_type, digest, identity, state)
             SELECT '{provider}', 'evt_' || n, n, n, 1, 0, 'paid', {blob}, 'sender/1', 'handled' FROM c"
        ),
    )
    .await;
}
