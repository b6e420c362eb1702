//! The tokens of operators that were made at run time: their rows, and those that the program knows by heart.

use std::collections::BTreeSet;

use super::damaged::intact;
use super::db::{DbError, DbResult, Door, Row, StoreError};
use super::handle::Store;
use crate::types::{Name, Principal, Reach, Role, UnixMs};

/// Most tokens that are good at once.
pub const TOKENS_GOOD_N_MAX: u32 = 1_000;
/// Most tokens that a node knows by heart: the good ones, and the newest of those that are good no more.
const TOKENS_KNOWN_N_MAX: u32 = 2_000;

/// A token, without itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRow {
    /// Id of the token.
    pub token_id: String,
    /// Its holder, with role and scope.
    pub principal: Principal,
    /// SHA-256 of the token.
    pub digest: [u8; 32],
    /// Name of the token that made it.
    pub created_by: String,
    /// Time when it was made.
    pub created_at_ms: UnixMs,
    /// Time until which it is good.
    pub expires_at_ms: UnixMs,
    /// Time when it was revoked.
    pub revoked_at_ms: Option<UnixMs>,
    /// Time when it was last used, to a minute or so.
    pub last_used_at_ms: Option<UnixMs>,
}

impl TokenRow {
    /// True when it is good at `now_ms`.
    pub fn is_good(&self, now_ms: UnixMs) -> bool {
        self.revoked_at_ms.is_none() && now_ms < self.expires_at_ms
    }
}

/// The columns of a [`TokenRow`].
macro_rules! token_columns {
    () => {
        "token_id, name, role, providers, destinations, digest, created_by, created_at_ms, expires_at_ms, revoked_at_ms, \
         last_used_at_ms"
    };
}
pub(super) use token_columns;

/// Reads a row of `operator_tokens`. What no version writes is an error, never a wider scope.
pub(super) fn token_row(row: &Row) -> DbResult<TokenRow> {
    let (name, role) = (row.text("name")?, row.text("role")?);
    let digest = row.bytes("digest")?;
    let principal = Principal {
        name: Name::parse(&name).map_err(|error| DbError::decode("name", error))?,
        role: Role::parse(&role).ok_or_else(|| DbError::decode("role", format_args!("`{role}`")))?,
        providers: reach(row, "providers")?,
        destinations: reach(row, "destinations")?,
    };
    Ok(TokenRow {
        token_id: row.text("token_id")?,
        principal,
        digest: digest.try_into().map_err(|_| DbError::decode("digest", "no SHA-256"))?,
        created_by: row.text("created_by")?,
        created_at_ms: row.int("created_at_ms")?,
        expires_at_ms: row.int("expires_at_ms")?,
        revoked_at_ms: row.int_or_null("revoked_at_ms")?,
        last_used_at_ms: row.int_or_null("last_used_at_ms")?,
    })
}

/// Rows of `operator_tokens`; one that is damaged is the token of nobody.
pub(super) fn token_rows(rows: &[Row]) -> DbResult<Vec<TokenRow>> {
    Ok(intact("operator_tokens", "token_id", rows, token_row)?.rows)
}

fn reach(row: &Row, column: &str) -> DbResult<Reach> {
    let Some(text) = row.text_or_null(column)? else { return Ok(Reach::All) };
    let names: Option<BTreeSet<Name>> = serde_json::from_str::<Vec<String>>(&text)
        .ok()
        .and_then(|names| names.iter().map(|name| Name::parse(name).ok()).collect());
    names.map(Reach::These).ok_or_else(|| DbError::decode(column, "no list of names"))
}

/// The list of a reach, as its column holds it.
pub(super) fn reach_text(reach: &Reach) -> Option<String> {
    reach.names().map(|names| serde_json::Value::from(names).to_string())
}

/// The tokens, for whoever lets requests in: it reads them and notes their use, and nothing else of the store.
#[derive(Clone)]
pub struct TokenBook(Store);

impl TokenBook {
    /// The tokens of this store.
    pub fn new(store: Store) -> Self {
        Self(store)
    }

    pub(super) fn store(&self) -> &Store {
        &self.0
    }

    /// Returns the tokens that are good, and the newest of those that are no more, at most 2,000 of both.
    pub async fn tokens_known(&self) -> Result<Vec<TokenRow>, StoreError> {
        let store = &self.0;
        alone!(store.reader.tokens_known())
    }

    /// Notes that these tokens were used.
    pub async fn tokens_used(&self, token_ids: Vec<String>, now_ms: UnixMs) -> Result<(), StoreError> {
        let store = &self.0;
        alone!(store.writer.tokens_used(token_ids, now_ms))
    }
}

async fn tokens_known(db: &mut Door<'_>) -> DbResult<Vec<TokenRow>> {
    let sql = concat!(
        "/* tokens_known */ SELECT ",
        token_columns!(),
        " FROM operator_tokens ORDER BY CASE WHEN revoked_at_ms IS NULL THEN 0 ELSE 1 END, expires_at_ms DESC, token_id
          LIMIT $1"
    );
    token_rows(&db.fetch(sql, &[TOKENS_KNOWN_N_MAX.into()]).await?)
}

async fn tokens_used(db: &mut Door<'_>, token_ids: Vec<String>, now_ms: UnixMs) -> DbResult<()> {
    let sql = "/* tokens_used */ UPDATE operator_tokens SET last_used_at_ms = $2
               WHERE token_id = ANY($1) AND COALESCE(last_used_at_ms, 0) < $2";
    db.execute(sql, &[token_ids.into(), now_ms.into()]).await.map(drop)
}
