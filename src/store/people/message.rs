//! One message as a person may see it: its attempts, with the answers that were kept for those who may see contents,
//! and what people decided about it.

use super::audit::people_decisions;
use super::messages::message_view;
use super::person::{People, PeopleError};
use crate::api::{AttemptView, MessageDetail};
use crate::store::audit::{AuditEntry, append};
use crate::store::db::{DbResult, Door};
use crate::store::look::AttemptRow;
use crate::types::{EventKey, MessageId, UnixMs};

impl People {
    /// One message with its newest attempts and decisions. That somebody is shown what a destination answered is on
    /// record before it is shown.
    pub async fn message(&self, message_id: MessageId, now_ms: UnixMs) -> Result<MessageDetail, PeopleError> {
        let row = match self.store.message_get(message_id).await {
            // Whose it is cannot be read: it is for those who reach everywhere.
            Err(error) if error.is_damaged_row() && !self.principal.is_everywhere() => None,
            row => row?,
        };
        let row = row.ok_or(PeopleError::NotFound)?;
        self.needs_provider(row.key.provider.as_str())?;
        self.needs_destination(&row.destination)?;
        let found = self.store.attempts_of(message_id).await?;
        let mut attempts: Vec<AttemptView> = found.rows.into_iter().map(attempt_view).collect();
        if !self.may_see_contents() {
            for one in &mut attempts {
                one.response = None;
            }
        }
        let answers_n = attempts.iter().filter(|one| one.response.is_some()).count();
        if answers_n > 0 {
            let store = &self.store;
            let told = [self.answer_read(&row.key, message_id, answers_n)];
            together!(store.deciding.people_told(&told, now_ms))?;
        }
        let store = &self.store;
        let decisions = alone!(store.people.people_decisions(message_id))?;
        Ok(MessageDetail {
            message: message_view(row),
            attempts,
            decisions,
            policy: None,
            damaged: found.damaged,
        })
    }

    /// What the audit log is to tell of the kept answers that are shown of one message.
    pub(super) fn answer_read(&self, key: &EventKey, message_id: MessageId, answers_n: usize) -> AuditEntry {
        AuditEntry {
            actor: self.actor(),
            action: "answer_read",
            provider: Some(key.provider.to_string()),
            event_id: Some(key.event_id.clone()),
            message_id: Some(message_id.number()),
            detail: format!("{answers_n} kept answers"),
            ..AuditEntry::default()
        }
    }
}

/// An attempt as those see it who may see contents.
pub(super) fn attempt_view(row: AttemptRow) -> AttemptView {
    AttemptView {
        attempt_n: row.attempt_n,
        node: row.node,
        started_at_ms: row.started_at_ms,
        finished_at_ms: row.finished_at_ms,
        result: row.result,
        http_status: row.http_status.and_then(|status| u16::try_from(status).ok()),
        error: row.error,
        response: row.response,
    }
}

/// Says in the audit log what is about to be shown.
pub(super) async fn people_told(db: &mut Door<'_>, told: &[AuditEntry], now_ms: UnixMs) -> DbResult<()> {
    append(db, now_ms, told).await
}
