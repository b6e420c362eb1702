//! Which rows of a set have changed since somebody looked at them, so that a refusal can name them.
//!
//! A node remembers the sets of the newest previews, so many rows in all. Whoever orders at another node, or much later,
//! is refused all the same, and hears no names.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::set::FoundSet;
use crate::api::{ChangedRows, OperationChoice};
use crate::store::damaged::intact;
use crate::store::db::{DbResult, Door, Row, Value};
use crate::types::{MESSAGES_N_MAX, Principal, Reach, UnixMs};

/// Rows that are remembered, of all previews together: about 5 MB.
const REMEMBERED_N_MAX: usize = 200_000;
/// Rows that are named.
const NAMED_N: usize = 10;
/// Acts on rows of a preview that are told beforehand: those of the last ten minutes, in the newest rows of the audit log.
const RECENT_MS: i64 = 600_000;
/// Most names of operators.
const ACTORS_N: usize = 3;

/// The rows of the newest previews.
#[derive(Debug, Default)]
pub(in crate::store) struct SeenSets(Mutex<VecDeque<(String, BTreeMap<i64, u64>)>>);

impl SeenSets {
    /// Remembers the rows of a preview.
    pub(super) fn remember(&self, set: &FoundSet) {
        let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sets.retain(|(digest, _)| *digest != set.digest);
        sets.push_front((set.digest.clone(), set.versions()));
        let mut rows_n = 0;
        sets.retain(|(_, rows)| {
            rows_n += rows.len().max(1);
            rows_n <= REMEMBERED_N_MAX
        });
    }

    /// The numbers of rows that are in one of both sets alone, or stand otherwise now; none where the first is not known.
    pub(super) fn changed(&self, seen: &str, now: &FoundSet) -> Vec<i64> {
        let sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((_, before)) = sets.iter().find(|(digest, _)| digest == seen) else { return Vec::new() };
        let now = now.versions();
        let numbers: BTreeSet<i64> = before.keys().chain(now.keys()).copied().collect();
        numbers.into_iter().filter(|id| before.get(id) != now.get(id)).collect()
    }
}

const EVENTS: &str = "/* operation_set */ SELECT event_seq, provider, event_id FROM processed_webhook_events
    WHERE event_seq = ANY($1) AND (CAST($2 AS BIGINT) = 1 OR provider = ANY($3)) ORDER BY event_seq";
/// What was decided about messages and events since `$1`.
const RECENT: &str = "/* operation_preview */ SELECT a.audit_seq, a.at_ms, a.actor, a.message_id, e.event_seq
    FROM (SELECT audit_seq, at_ms, actor, action, message_id, provider, event_id FROM audit_log
          ORDER BY audit_seq DESC LIMIT 10000) a
    LEFT JOIN processed_webhook_events e ON a.message_id IS NULL AND e.provider = a.provider AND e.event_id = a.event_id
    WHERE a.at_ms > $1 AND a.action NOT IN ('body_read', 'answer_read') AND a.event_id IS NOT NULL
    ORDER BY a.audit_seq DESC";

/// The first of these rows by name: messages by their ids, events in reach by provider and id.
pub(super) async fn named(
    db: &mut Door<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    who: &Principal,
) -> DbResult<ChangedRows> {
    let first = ids.get(..NAMED_N).unwrap_or(ids);
    let rows = match choice {
        _ if first.is_empty() => Vec::new(),
        OperationChoice::Messages(_) => first.iter().map(i64::to_string).collect(),
        OperationChoice::Events(_) => {
            let (is_all, names) = (who.providers == Reach::All, who.providers.names());
            let values: [Value; 3] =
                [first.to_vec().into(), i64::from(is_all).into(), names.unwrap_or_default().into()];
            let name = |row: &Row| Ok(format!("{}/{}", row.text("provider")?, row.text("event_id")?));
            intact("processed_webhook_events", "event_seq", &db.fetch(EVENTS, &values).await?, name)?.rows
        }
    };
    Ok(ChangedRows { rows, rows_n: u64::try_from(ids.len()).unwrap_or(u64::MAX) })
}

/// Acts of operators on these rows, their events or their messages, a moment ago.
pub(super) struct RecentActs {
    /// Numbers of the rows, ascending.
    pub(super) ids: Vec<i64>,
    pub(super) last_at_ms: UnixMs,
    pub(super) actors: Vec<String>,
}

/// What operators did to these rows in the last minutes; `None`: nothing.
pub(super) async fn recent_acts(
    db: &mut Door<'_>,
    choice: &OperationChoice,
    ids: &[i64],
    now_ms: UnixMs,
) -> DbResult<Option<RecentActs>> {
    if ids.is_empty() {
        return Ok(None);
    }
    let per_event = i64::from(MESSAGES_N_MAX);
    let are_events = matches!(choice, OperationChoice::Events(_));
    let mut of_event: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for id in ids {
        of_event.entry(if are_events { *id } else { id / per_event }).or_default().push(*id);
    }
    let act = |row: &Row| {
        let subject = (row.int_or_null("message_id")?, row.int_or_null("event_seq")?);
        Ok((subject, row.int("at_ms")?, row.text("actor")?))
    };
    let rows = db.fetch(RECENT, &[now_ms.saturating_sub(RECENT_MS).into()]).await?;
    let (mut touched, mut last_at_ms, mut actors) = (BTreeSet::new(), UnixMs::MIN, Vec::new());
    for ((message_id, event_seq), at_ms, actor) in intact("audit_log", "audit_seq", &rows, act)?.rows {
        let event = event_seq.or(message_id.map(|id| id / per_event));
        let Some(found) = event.and_then(|event| of_event.get(&event)) else { continue };
        let is_it = |id: &&i64| are_events || message_id.is_none_or(|message_id| message_id == **id);
        let before_n = touched.len();
        touched.extend(found.iter().filter(is_it).copied());
        if touched.len() > before_n {
            last_at_ms = last_at_ms.max(at_ms);
            if actors.len() < ACTORS_N && !actors.contains(&actor) {
                actors.push(actor);
            }
        }
    }
    Ok((!touched.is_empty()).then(|| RecentActs { ids: touched.into_iter().collect(), last_at_ms, actors }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> FoundSet {
        FoundSet::of(text).unwrap()
    }

    #[test]
    fn rows_that_are_new_gone_or_changed_are_found_of_sets_that_are_remembered() {
        let (seen, before) = (SeenSets::default(), set("1:0.1,2:0.1,3:0.1"));
        seen.remember(&before);
        assert_eq!(seen.changed(&before.digest, &before), Vec::<i64>::new());
        assert_eq!(seen.changed(&before.digest, &set("2:0.2,3:0.1,4:0.1")), [1, 2, 4]);
        assert_eq!(seen.changed("another", &set("2:0.2")), Vec::<i64>::new());
        let large = |first: usize| {
            set(&(first..first + 90_000).map(|n| format!("{n}:0")).collect::<Vec<_>>().join(","))
        };
        seen.remember(&large(10));
        seen.remember(&large(20));
        assert_eq!(seen.changed(&before.digest, &set("1:0")).len(), 3, "there is room");
        seen.remember(&large(30));
        assert_eq!(seen.changed(&before.digest, &set("1:0")), Vec::<i64>::new(), "the oldest are forgotten");
        assert_eq!(seen.changed(&large(30).digest, &large(31)), [30, 90_030]);
    }
}
