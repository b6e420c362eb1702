//! Messages: claims, settlements, and what is known of them.

use super::tx::TxKind;
use super::types::{Claimed, Token, laned};
use super::{
    Backend, LeaseWant, LeasedMessage, LostClaims, MessageCount, MessageRow, Settlement, Store, StoreError,
    limit, postgres, sqlite, warnings,
};
use crate::types::{EventKey, UnixMs};

impl Store {
    /// The messages of one event, by effect name.
    pub async fn message_list_of_event(&self, key: &EventKey) -> Result<Vec<MessageRow>, StoreError> {
        let key = key.clone();
        alone!(self.people.message_list_of_event(&key))
    }

    /// Takes due messages of the wanted destinations, each for `lease_ms`, counting and recording an
    /// attempt before any byte leaves. A lease that ended without a settlement is due like any other. A message
    /// that cannot be read is held, with the reason, and stands in nobody's way. `node` names who claims them; a
    /// name of its own for each look lets [`Store::message_release`] tell them.
    pub async fn message_lease(
        &self,
        wants: &[LeaseWant],
        now_ms: UnixMs,
        lease_ms: i64,
        node: &str,
    ) -> Result<Vec<LeasedMessage>, StoreError> {
        let wants: Vec<LeaseWant> = wants.iter().filter(|want| want.free_n > 0).cloned().collect();
        if wants.is_empty() {
            return Ok(Vec::new());
        }
        let node = node.to_owned();
        let now = self.now(now_ms);
        let claimed: Claimed = if matches!(self.0, Backend::Postgres(_)) {
            alone!(self.writer.message_lease(&wants, now, lease_ms, &node))?
        } else if self.message_is_any_due(&wants, now_ms).await? {
            together!(self.message_lease(&wants, now, lease_ms, &node))?
        } else {
            return Ok(Vec::new());
        };
        if !claimed.unreadable.is_empty() {
            for one in &claimed.unreadable {
                let (message_id, error) = (&one.message_id, one.error.as_deref().unwrap_or_default());
                tracing::error!(message.id = %message_id, error, "message cannot be read; it is held");
            }
            // If this fails, their leases end, and they come here again.
            if let Err(error) = self.message_settle(&claimed.unreadable).await {
                tracing::warn!(%error, "could not hold the messages that cannot be read");
            }
        }
        Ok(claimed.messages)
    }

    /// Whether it is worth the writer's time to look; on PostgreSQL, which has no single writer, always.
    async fn message_is_any_due(&self, wants: &[LeaseWant], now_ms: UnixMs) -> Result<bool, StoreError> {
        let Backend::Sqlite(db) = self.0.clone() else { return Ok(true) };
        let wants = wants.to_vec();
        limit::whole("message_lease", limit::OPERATION_LIMIT, async move {
            let look = async {
                let mut held = db.reader().take().await?;
                let answer = sqlite::message_is_any_due(held.connection()?, &wants, now_ms);
                let answer = limit::limited(answer).await;
                held.give_back_after(answer)
            };
            look.await.map_err(|source| StoreError::from_sqlx("message_lease", source))
        })
        .await
    }

    /// Gives back what was claimed by looks whose answer was lost: none of it was sent. Says how many.
    pub async fn message_release(&self, lost: &LostClaims, now_ms: UnixMs) -> Result<u64, StoreError> {
        let (lost, now) = (lost.clone(), self.now(now_ms));
        together!(self.message_release(&lost, now))
    }

    /// Prolongs the lease of a message to `lease_ms` from now while its call is under way; `false` when it is no
    /// longer this worker's: then nothing was changed.
    pub async fn message_extend(
        &self,
        message_id: &str,
        attempt_n: u32,
        now_ms: UnixMs,
        lease_ms: i64,
    ) -> Result<bool, StoreError> {
        let (message_id, now) = (message_id.to_owned(), self.now(now_ms));
        alone!(self.writer.message_extend(&message_id, attempt_n, now, lease_ms))
    }

    /// Writes what attempts came to. `false` for each whose token is no longer the message's: then nothing
    /// of it was written.
    pub async fn message_settle(&self, settlements: &[Settlement]) -> Result<Vec<bool>, StoreError> {
        if settlements.is_empty() {
            return Ok(Vec::new());
        }
        let (written, is_own_clock) = (settlements.to_vec(), self.is_own_clock());
        // One statement where it can be.
        let is_one = matches!(self.0, Backend::Postgres(_)) && laned(settlements).is_empty();
        let settled: std::collections::HashSet<Token> = if is_one {
            alone!(self.writer.message_settle(&written, is_own_clock))?
        } else {
            together!(self.message_settle(&written, is_own_clock))?
        };
        let is_written = |one: &Settlement| settled.contains(&(one.message_id.clone(), one.attempt_n));
        Ok(settlements.iter().map(is_written).collect())
    }

    /// The latest time that the open messages tell of; below it no clock of ours was when they were written.
    pub async fn message_latest_ms(&self) -> Result<Option<UnixMs>, StoreError> {
        alone!(self.reader.message_latest_ms())
    }

    /// How many unfinished messages stand where.
    pub async fn message_counts(&self) -> Result<Vec<MessageCount>, StoreError> {
        alone!(self.reader.message_counts())
    }
}
