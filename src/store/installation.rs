//! The name of this installation: made once, by the first migration, and part of every idempotency key.

use uuid::Uuid;

use super::db::{DbResult, Door, StoreError};
use super::handle::Store;
use crate::types::Clock;

impl Store {
    /// Returns what this installation is called in idempotency keys; made by the first migration.
    pub async fn installation_id(&self) -> Result<Uuid, StoreError> {
        if let Some(id) = self.parts.installation.get() {
            return Ok(*id);
        }
        let text: String = alone!(self.reader.installation_text())?;
        let id = Uuid::parse_str(&text)
            .map_err(|_| StoreError::inconsistent("installation", "installation_id", "1"))?;
        Ok(*self.parts.installation.get_or_init(|| id))
    }
}

/// Gives the installation its id, unless it has one.
pub(super) async fn installation_create(db: &mut Door<'_>, id: &str) -> DbResult<()> {
    let now_ms = Clock::system().now_ms();
    db.execute(
        "/* installation_create */ INSERT INTO installation (one, installation_id, created_at_ms) VALUES (1, $1, $2)
         ON CONFLICT DO NOTHING",
        &[id.into(), now_ms.into()],
    )
    .await
    .map(drop)
}

async fn installation_text(db: &mut Door<'_>) -> DbResult<String> {
    let sql = "/* installation_id */ SELECT installation_id FROM installation";
    db.fetch_one(sql, &[]).await?.text("installation_id")
}
