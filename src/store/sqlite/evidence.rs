//! Evidence about requests: rejections and the use of secrets.

use sqlx::SqliteConnection;

use crate::store::evidence::{Rejection, SecretUse, Taught};

pub(in crate::store) async fn rejections_insert(
    db: &mut SqliteConnection,
    rejections: &[Rejection],
) -> sqlx::Result<()> {
    for one in rejections {
        sqlx::query(
            "INSERT INTO rejected_requests (rejection_id, provider, received_at_ms, step, reason, detail, headers,
                 body_digest, body_bytes_n)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING",
        )
        .bind(&one.rejection_id)
        .bind(&one.provider)
        .bind(one.received_at_ms)
        .bind(&one.step)
        .bind(&one.reason)
        .bind(&one.detail)
        .bind(&one.headers)
        .bind(hex::decode(&one.body_digest).unwrap_or_default())
        .bind(one.body_bytes_n)
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}

pub(in crate::store) async fn rejections_prune(
    db: &mut SqliteConnection,
    provider: &str,
    keep_n: i64,
) -> sqlx::Result<()> {
    sqlx::query(
        "DELETE FROM rejected_requests WHERE provider = $1 AND rejection_id < (
             SELECT MIN(rejection_id) FROM (
                 SELECT rejection_id FROM rejected_requests WHERE provider = $1
                 ORDER BY rejection_id DESC LIMIT $2) newest)",
    )
    .bind(provider)
    .bind(keep_n)
    .execute(db)
    .await
    .map(drop)
}

pub(in crate::store) async fn rejection_list(
    db: &mut SqliteConnection,
    provider: Option<&str>,
    limit: i64,
) -> sqlx::Result<Vec<Rejection>> {
    let rows = sqlx::query(
        "SELECT rejection_id, provider, received_at_ms, step, reason, detail, headers, body_digest, body_bytes_n
         FROM rejected_requests WHERE $1 IS NULL OR provider = $1
         ORDER BY rejection_id DESC LIMIT $2",
    )
    .bind(provider)
    .bind(limit)
    .fetch_all(db)
    .await?;
    rows.iter().map(Rejection::from_row).collect()
}

pub(in crate::store) async fn secret_use_add(db: &mut SqliteConnection, one: &SecretUse) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO secret_uses (provider, fingerprint, matched_n, last_matched_at_ms) VALUES ($1, $2, $3, $4)
         ON CONFLICT (provider, fingerprint) DO UPDATE SET
             matched_n = secret_uses.matched_n + excluded.matched_n,
             last_matched_at_ms = CASE WHEN secret_uses.last_matched_at_ms > excluded.last_matched_at_ms
                 THEN secret_uses.last_matched_at_ms ELSE excluded.last_matched_at_ms END",
    )
    .bind(&one.provider)
    .bind(&one.fingerprint)
    .bind(one.matched_n)
    .bind(one.last_matched_at_ms)
    .execute(db)
    .await
    .map(drop)
}

pub(in crate::store) async fn secret_use_list(db: &mut SqliteConnection) -> sqlx::Result<Vec<SecretUse>> {
    let rows = sqlx::query(
        "SELECT provider, fingerprint, matched_n, last_matched_at_ms FROM secret_uses
         ORDER BY provider, fingerprint",
    )
    .fetch_all(db)
    .await?;
    rows.iter().map(SecretUse::from_row).collect()
}

pub(in crate::store) async fn taught_keep(db: &mut SqliteConnection, taught: &Taught) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO taught_secrets (provider, secret, taught_at_ms) VALUES ($1, $2, $3)
         ON CONFLICT (provider) DO UPDATE SET secret = excluded.secret, taught_at_ms = excluded.taught_at_ms",
    )
    .bind(&taught.provider)
    .bind(&taught.secret)
    .bind(taught.taught_at_ms)
    .execute(db)
    .await
    .map(drop)
}

pub(in crate::store) async fn taught_take(
    db: &mut SqliteConnection,
    provider: &str,
) -> sqlx::Result<Option<Taught>> {
    let row = sqlx::query(
        "DELETE FROM taught_secrets WHERE provider = $1 RETURNING provider, secret, taught_at_ms",
    )
    .bind(provider)
    .fetch_optional(db)
    .await?;
    row.as_ref().map(Taught::from_row).transpose()
}
