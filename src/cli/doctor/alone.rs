//! Looks at configuration and database where no server runs.

use std::path::Path;

use crate::api::FindingView;
use crate::config::ConfigProblem;
use crate::doctor::{self, CONFIG, SERVER};
use crate::load::{Kinds, Loaded, Settings, load};
use crate::setup;
use crate::types::Clock;

/// Findings about what the configuration says, and the database that it names. Nothing is made that is not there.
pub(super) async fn alone(file: Option<&Path>, kinds: &Kinds, is_deep: bool) -> Vec<FindingView> {
    let config = match load(&Settings::of_process(file), kinds) {
        Ok(Loaded { config, .. }) => config,
        Err(problems) => {
            let told = problems.iter().map(|problem| {
                CONFIG.failure(problem.to_string()).cure("hooklatch check says all that is wrong")
            });
            return told.collect();
        }
    };
    let mut found: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    found.extend(crate::load::warnings(&config, kinds));
    let mut findings = doctor::warnings(&found);
    if !is_there(&config.database.url) {
        findings.push(SERVER.note("the database's file is not there yet").about("database"));
        return findings;
    }
    // Nobody waits a minute for a database that is away.
    let database = crate::config::DatabaseConfig { connect_wait_ms: 0, ..config.database.clone() };
    match setup::store(&database, &config.encryption, false).await {
        Ok(opened) => {
            if opened.schema.is_usable() {
                let times = (&Clock::system(), config.outbox.lease_ms);
                findings.extend(doctor::database(&opened.store, &database, times, is_deep).await);
            } else {
                let why =
                    SERVER.failure(format!("schema of the database is {}", opened.schema)).about("database");
                findings.push(why.cure("hooklatch migrate"));
            }
            opened.store.close().await;
        }
        Err(error) => {
            let cure = if error.is::<ConfigProblem>() {
                "docs/security.md says what a key id stands for"
            } else {
                "docs/postgres.md says what is demanded of PostgreSQL; a file belongs to one process"
            };
            findings.push(SERVER.failure(format!("{error:#}")).about("database").cure(cure));
        }
    }
    findings
}

/// False for a file that is not there: opening it would make it.
fn is_there(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("sqlite:") else { return true };
    let path = rest.trim_start_matches("//").split('?').next().unwrap_or_default();
    let path = percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned();
    // Of `sqlite:///x` the path is `/x`.
    let path = if rest.starts_with("///") { format!("/{}", path.trim_start_matches('/')) } else { path };
    Path::new(&path).exists()
}
