//! What SQLite says about its file, and the state of either database.

use std::path::PathBuf;

use super::facts::{DatabaseState, FileState};
use super::server::server_state;
use crate::store::db::{DbResult, Door, StoreError};
use crate::store::handle::Store;

/// Most mistakes of the file that are told.
const MISTAKES: &str = "/* checkup_pages */ PRAGMA quick_check(3)";

impl Store {
    /// Asks the database about itself.
    pub async fn checkup_state(&self) -> Result<DatabaseState, StoreError> {
        if self.dialect() == "postgres" {
            let state = alone!(self.reader.server_state())?;
            return Ok(DatabaseState::Server(Box::new(state)));
        }
        // How a commit is made is the writer's own.
        alone!(self.writer.file_state()).map(DatabaseState::File)
    }

    /// Reads every page of SQLite's file, for as long as an operation may take; what is wrong with it. `None` on PostgreSQL.
    pub async fn checkup_pages(&self) -> Result<Option<Vec<String>>, StoreError> {
        if self.dialect() == "postgres" {
            return Ok(None);
        }
        alone!(self.people.pages()).map(Some)
    }
}

async fn file_state(db: &mut Door<'_>) -> DbResult<FileState> {
    let path = db.fetch_one("/* checkup_file */ PRAGMA database_list", &[]).await?.text("file")?;
    let journal = db.fetch_one("/* checkup_file */ PRAGMA journal_mode", &[]).await?.text("journal_mode")?;
    let mut number = async |sql: &'static str, column: &str| db.fetch_one(sql, &[]).await?.int(column);
    let synchronous = number("/* checkup_file */ PRAGMA synchronous", "synchronous").await?;
    let page_bytes = number("/* checkup_file */ PRAGMA page_size", "page_size").await?;
    let pages_n = number("/* checkup_file */ PRAGMA page_count", "page_count").await?;
    let free_n = number("/* checkup_file */ PRAGMA freelist_count", "freelist_count").await?;
    Ok(FileState {
        path: PathBuf::from(path),
        journal,
        synchronous,
        bytes: pages_n.saturating_mul(page_bytes),
        free_bytes: free_n.saturating_mul(page_bytes),
    })
}

async fn pages(db: &mut Door<'_>) -> DbResult<Vec<String>> {
    let rows = db.fetch_as_is(MISTAKES, &[]).await?;
    let told = rows.iter().map(|row| row.text("quick_check"));
    told.filter(|text| !matches!(text, Ok(text) if text == "ok")).collect()
}
