//! Examines a database, whether a server runs on it or not: the schema of either, SQLite's file with its log, disk and
//! witness, and PostgreSQL's tables. `server.rs` judges PostgreSQL's settings.

use std::path::Path;

use super::check::{
    BLOAT, CLOCK_DATABASE, DEEP_LIMIT, DISK, FILE, KEYS, LOOK_LIMIT, PAGES, SCHEMA, SETTINGS, VACUUM, WAL,
    WITNESS, bounded, or_well,
};
use super::node::SEEN_MS;
use super::senders::database_clock;
use super::server::{DatabaseWants, server};
use hooklatch_contract::FindingView;
use hooklatch_core::config::{DatabaseConfig, PoolingConfig};
use hooklatch_core::disk::{DiskRoom, beside, folder_of, followed};
use hooklatch_core::figures::grouped;
use hooklatch_core::times::rfc3339;
use hooklatch_core::types::Clock;
use hooklatch_outbox::clock_offset_ms_max;
use hooklatch_store::{
    DatabaseState, FileState, KeyUse, SchemaParts, ServerState, Store, StoreError, TableState,
    WitnessFinding, WitnessState, broken_pragmas,
};

/// Length of the log. Bytes.
const WAL_BYTES: u64 = 256 << 20;
/// A file of this length of which more than half is free. Bytes.
const FILE_BYTES: i64 = 1 << 30;
/// Room that is left on the disk, below which it is a warning, and a failure. Bytes.
const FREE_BYTES: [u64; 2] = [2 << 30, 256 << 20];
/// These as parts of the disk. Percent.
const FREE_PERCENT: [u64; 2] = [10, 2];

/// Dead rows that are many, if they are more than the live ones.
const DEAD_N: i64 = 100_000;
/// Ages of transaction ids: of two thousand million the database stops.
const IDS_N: [i64; 2] = [500_000_000, 1_500_000_000];
/// A transaction that is open for so long keeps dead rows alive. Seconds.
const OLDEST_S: i64 = 900;
/// WAL that is kept for a slot without a reader. Bytes.
const HELD_BYTES: [i64; 2] = [4 << 30, 32 << 30];
/// A row takes up less than a page; a table of this length with more for each is empty in the main. Bytes.
const ROW_BYTES: i64 = 16 << 10;
const TABLE_BYTES: i64 = 256 << 20;

/// Findings about the database of this store. Nothing in it is changed.
pub async fn database(
    store: &Store,
    config: &DatabaseConfig,
    (clock, lease_ms): (&Clock, u64),
    is_deep: bool,
) -> Vec<FindingView> {
    let wants = DatabaseWants {
        connections_n: config.connections_n,
        is_replicated: config.replicated,
        is_pooled: config.pooling == PoolingConfig::Transaction,
    };
    // The least of three: a busy moment says nothing about clocks.
    let offset = async {
        let mut least_ms = i64::MAX;
        for _ in 0..3 {
            let offset_ms = store.clock_offset_ms(clock.now_ms()).await?;
            least_ms =
                if offset_ms.saturating_abs() < least_ms.saturating_abs() { offset_ms } else { least_ms };
        }
        Ok::<i64, StoreError>(least_ms)
    };
    let max_ms = clock_offset_ms_max(lease_ms);
    let judged = |ms| vec![database_clock(ms, max_ms, store.dialect())];
    let clocks = bounded(CLOCK_DATABASE, LOOK_LIMIT, offset, judged);
    let parts = bounded(SCHEMA, LOOK_LIMIT, store.checkup_schema(), |parts| schema(&parts));
    let asked = async {
        let (nodes_n, state) = tokio::join!(nodes_n(store, clock), store.checkup_state());
        Ok::<_, StoreError>((nodes_n, state?))
    };
    let judged = |(nodes_n, state): (usize, DatabaseState)| of_state(&state, wants, nodes_n);
    let state = bounded(SETTINGS, LOOK_LIMIT, asked, judged);
    let beside = bounded(WITNESS, LOOK_LIMIT, store.witness_state(), |state| witness(state.as_ref()));
    let disk = async {
        let Some(path) = store.file() else { return Vec::new() };
        let mut found = vec![at_its_path(&path, store.replaced())];
        let looked = tokio::task::spawn_blocking(move || disk_of(&path));
        found.extend(bounded(DISK, LOOK_LIMIT, looked, |found| found).await);
        found
    };
    let whole = async { if is_deep { of_pages(store).await } else { Vec::new() } };
    let sealed = bounded(KEYS, LOOK_LIMIT, store.keys_in_use(), |used| keys(store, &used));
    // Concurrent: each has its own limit, and the doctor does not wait for their sum.
    let (clocks, parts, state, beside, disk, whole) = tokio::join!(clocks, parts, state, beside, disk, whole);
    [clocks, parts, state, beside, disk, sealed.await, whole].concat()
}

/// Findings about keys that values are sealed with and that this configuration does not have.
fn keys(store: &Store, used: &[KeyUse]) -> Vec<FindingView> {
    let of_table = |one: &KeyUse| {
        let key_id = one.key_id.as_str();
        store.ring().key_ids().all(|known| known != key_id).then(|| {
            let words = format!(
                "rows of `{}` are encrypted with it, and [encryption] keys does not have it",
                one.table.table()
            );
            KEYS.failure(words)
                .about(key_id)
                .cure("add that key again, with this id: then all of it goes on by itself")
        })
    };
    or_well(used.iter().filter_map(of_table).collect(), || KEYS.well("every value has its key"))
}

/// Number of live nodes; 0 when it is unknown.
async fn nodes_n(store: &Store, clock: &Clock) -> usize {
    let seen = store.node_list(clock.now_ms()).await.unwrap_or_default();
    seen.iter().filter(|one| one.ago_ms <= SEEN_MS).count()
}

fn of_state(state: &DatabaseState, wants: DatabaseWants, nodes_n: usize) -> Vec<FindingView> {
    match state {
        DatabaseState::File(state) => file(state),
        DatabaseState::Server(state) => [server(state, wants, nodes_n), tables(state)].concat(),
    }
}

async fn of_pages(store: &Store) -> Vec<FindingView> {
    let judged = |mistakes: Option<Vec<String>>| match mistakes {
        Some(mistakes) => pages(&mistakes),
        None => vec![PAGES.note("PostgreSQL looks after its own: pg_amcheck reads them")],
    };
    bounded(PAGES, DEEP_LIMIT, store.checkup_pages(), judged).await
}

fn file(state: &FileState) -> Vec<FindingView> {
    let wal_bytes = std::fs::metadata(beside(&state.path, "-wal")).map_or(0, |found| found.len());
    judged(state, wal_bytes)
}

/// Whether the file that is open is the one at its path; `moved` says why not.
fn at_its_path(path: &Path, moved: Option<&str>) -> FindingView {
    match moved {
        None => FILE.well(format!("`{}`", path.display())),
        Some(what) => FILE.failure(what).cure(
            "if the files were moved, stop the server, put the database and its -wal back to where they were, and start it; if \
             they were deleted, copy them from /proc/PID/fd before you stop it; if a copy was put into the file, stop the \
             server and ask `hooklatch restore-check` (docs/backup.md)",
        ),
    }
}

/// Findings about the disk that the file at `path` is on. It does not query the database, which may not answer on a
/// full disk.
fn disk_of(path: &Path) -> Vec<FindingView> {
    let folder = followed(folder_of(&followed(path)));
    vec![match DiskRoom::of(&folder) {
        Some(room) => disk(room, &folder),
        None => DISK.unknown(format!("the disk of `{}` cannot be looked at", folder.display())),
    }]
}

fn judged(state: &FileState, wal_bytes: u64) -> Vec<FindingView> {
    let broken = broken_pragmas(&state.journal, state.synchronous).into_iter().map(|rule| {
        let why = SETTINGS.failure(format!("{} = {}", rule.name, rule.value)).about(rule.name);
        why.against(rule.bound).cure(rule.remedy)
    });
    let found: Vec<FindingView> = broken.collect();
    let mut findings = or_well(found, || SETTINGS.well("journal_mode = wal, synchronous = FULL"));
    let words = format!("{} MiB", wal_bytes >> 20);
    let remedy =
        "look for what holds the file open beside Hooklatch (lsof), such as a backup that does not end";
    findings.push(WAL.graded(words, (wal_bytes > WAL_BYTES, false), remedy));
    let is_empty = state.bytes > FILE_BYTES && state.free_bytes > state.bytes / 2;
    let words = format!("{} of {} MiB are free", state.free_bytes >> 20, state.bytes >> 20);
    findings.push(BLOAT.graded(
        words,
        (is_empty, false),
        "hooklatch prune gives it back a little at a time; VACUUM does at once, while Hooklatch is stopped",
    ));
    findings
}

fn disk(DiskRoom { free_bytes, all_bytes }: DiskRoom, folder: &Path) -> FindingView {
    let percent = free_bytes.saturating_mul(100).checked_div(all_bytes).unwrap_or(100);
    let is_below = |bytes: u64, percent_min: u64| {
        // A large disk may be rather full, a small one has to have some part left.
        free_bytes < bytes || (percent < percent_min && free_bytes < bytes.saturating_mul(10))
    };
    let [warns, fails] = FREE_BYTES;
    let [warns_percent, fails_percent] = FREE_PERCENT;
    let words = format!("{} MiB, {percent} %, are free where `{}` is", free_bytes >> 20, folder.display());
    let grade = (is_below(warns, warns_percent), is_below(fails, fails_percent));
    DISK.graded(words, grade, "make room, or shorten [retention]")
}

/// What is wrong with the pages of the file.
fn pages(mistakes: &[String]) -> Vec<FindingView> {
    let bad = |text: &String| {
        PAGES.failure(text.clone()).cure("stop Hooklatch, keep the file, restore from a backup, then ask the senders again for what came since")
    };
    or_well(mistakes.iter().map(bad).collect(), || PAGES.well("every page is whole"))
}

fn witness(state: Option<&WitnessState>) -> Vec<FindingView> {
    let Some(state) = state else { return Vec::new() };
    let file = state.path.display();
    if let Some(why) = &state.failed {
        let words = format!("`{file}` cannot be written: {why}");
        let remedy = format!(
            "give Hooklatch's user the right to make `{file}` and the one that ends with .partial, and room for them; what \
             stands there and is no file has to go"
        );
        return vec![WITNESS.warning(words).cure(remedy)];
    }
    let at = |ms| rfc3339(ms).unwrap_or_else(|| ms.to_string());
    vec![match &state.finding {
        WitnessFinding::Same { at_ms } => WITNESS.well(format!("`{file}`, of {}", at(*at_ms))),
        WitnessFinding::Absent => WITNESS.note(format!("`{file}` is not there: the next start or change makes it")),
        WitnessFinding::Other => {
            let words = format!(
                "`{file}` is of another installation, which ran here before: all keys differ from those of before. The next \
                 start refuses a database without events, and writes the witness anew beside one with events"
            );
            WITNESS.warning(words).cure("if that was not intended, put the right file back before a start (docs/backup.md)")
        }
        WitnessFinding::Unreadable(why) => WITNESS.warning(format!("`{file}` cannot be read: {why}")).cure(
            "if a copy of the database was put back, take it over (hooklatch restore-check --backed-up-at …, docs/backup.md); \
             then remove the file: the next start makes it anew",
        ),
        WitnessFinding::Older { at_ms } => {
            let words = format!("what ran last was here until {} at least, and the database is older", at(*at_ms));
            WITNESS.failure(words).cure("let nothing run on it, and ask hooklatch restore-check (docs/backup.md)")
        }
    }]
}

fn schema(parts: &SchemaParts) -> Vec<FindingView> {
    let mut found = Vec::new();
    let mut add = |words: &str, name: &str, is_failure: bool, remedy: &str| {
        found.push(SCHEMA.graded(words, (true, is_failure), remedy).about(name));
    };
    let restore = "restore it as `migrations/` makes it, or restore from a backup";
    for (noun, names) in [("table", &parts.tables_missing), ("trigger", &parts.triggers_missing)] {
        let words = format!("the {noun} is missing, or turned off");
        for name in names {
            add(&words, name, true, restore);
        }
    }
    for (name, is_unique) in &parts.indexes_missing {
        let remedy = format!("make {name} again as `migrations/` does; on PostgreSQL with CONCURRENTLY");
        add("the index is missing", name, *is_unique, &remedy);
    }
    for (name, is_unique) in &parts.indexes_unfinished {
        let words = "the index is not valid: it was not finished, and nothing is looked up by it";
        add(words, name, *is_unique, &format!("REINDEX INDEX CONCURRENTLY {name}"));
    }
    for (name, is_unique) in &parts.indexes_others {
        let words = if *is_unique {
            "a unique index that is not ours: it may refuse events"
        } else {
            "an index that is not ours: each event pays for it"
        };
        add(words, name, *is_unique, &format!("DROP INDEX {name}, unless you need it"));
    }
    or_well(found, || {
        SCHEMA.well(format!("{} tables, indexes and triggers as the migrations make them", parts.fine_n))
    })
}

fn tables(state: &ServerState) -> Vec<FindingView> {
    let mut found = Vec::new();
    let mut add = |is_failure: bool, subject: &str, words: String, bound: &str, remedy: &str| {
        found.push(VACUUM.graded(words, (true, is_failure), remedy).about(subject).against(bound));
    };
    for name in ["autovacuum", "track_counts"].into_iter().filter(|name| state.setting(name) == "off") {
        let remedy = format!("ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()");
        add(true, name, format!("{name} = off"), "on", &remedy);
    }
    let number = |n: i64| grouped(n.unsigned_abs());
    for TableState { name, dead_n, .. } in state.tables.iter().filter(|table| table.is_without_vacuum) {
        let words = format!("autovacuum is turned off for this table; it has {} dead rows", number(*dead_n));
        add(false, name, words, "on", &format!("ALTER TABLE {name} RESET (autovacuum_enabled)"));
    }
    for TableState { name, dead_n, live_n, vacuumed_s, .. } in &state.tables {
        if *dead_n <= DEAD_N || dead_n <= live_n {
            continue;
        }
        let vacuumed = vacuumed_s
            .map_or_else(|| "never vacuumed".to_owned(), |s| format!("vacuumed {} minutes ago", s / 60));
        let words = format!("{} dead rows beside {} live ones, {vacuumed}", number(*dead_n), number(*live_n));
        let remedy = format!(
            "VACUUM (VERBOSE) {name}; if it removes nothing, something holds it back: an old transaction, a slot, a standby"
        );
        add(false, name, words, "100,000 dead rows, and more than the live ones", &remedy);
    }
    let [warns, fails] = IDS_N;
    if state.ids_n > warns {
        let words = format!("the oldest transaction id is {} old", number(state.ids_n));
        let remedy = "VACUUM (FREEZE), after ending what holds it back";
        add(state.ids_n > fails, "ids", words, &number(warns), remedy);
    }
    if state.oldest_s > OLDEST_S {
        let words = format!("a transaction is open for {} minutes", state.oldest_s / 60);
        let remedy = "SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start LIMIT 5; end it by pg_terminate_backend(pid)";
        add(false, "transactions", words, "15 minutes", remedy);
    }
    if state.prepared_n > 0 {
        let words = format!("{} prepared transactions are older than 5 minutes", state.prepared_n);
        let remedy = "SELECT gid FROM pg_prepared_xacts; COMMIT PREPARED or ROLLBACK PREPARED each";
        add(false, "prepared", words, "none", remedy);
    }
    let [warns, fails] = HELD_BYTES;
    if state.held_bytes > warns {
        let words =
            format!("{} MiB of WAL are held for a slot that no standby reads", state.held_bytes >> 20);
        let remedy =
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active; drop it, or start its reader";
        add(state.held_bytes > fails, "slots", words, "4,096 MiB", remedy);
    }
    let dead_n: i64 = state.tables.iter().map(|table| table.dead_n).sum();
    let well = || format!("{} dead rows; ids are {} old", number(dead_n), number(state.ids_n));
    let mut all = or_well(found, || VACUUM.well(well()));
    let bloated: Vec<FindingView> = state.tables.iter().filter_map(bloated).collect();
    all.extend(or_well(bloated, || BLOAT.well("no table is longer than its rows say")));
    all
}

fn bloated(table: &TableState) -> Option<FindingView> {
    let rows_n = table.live_n.saturating_add(table.dead_n).max(1);
    let is_bloated = table.bytes > TABLE_BYTES && table.bytes / rows_n > ROW_BYTES;
    is_bloated.then(|| {
        let words = format!("{} MiB for {} rows", table.bytes >> 20, grouped(rows_n.unsigned_abs()));
        let why = BLOAT.warning(words).about(&table.name).against("16 KiB a row");
        why.cure(format!(
            "VACUUM FULL {} while nothing is received (it locks the table), or pg_repack; ANALYZE first, in case the number of rows is old",
            table.name
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use hooklatch_contract::FindingVerdict::{self, Failure, Note, Warning, Well};

    fn bad(found: &[FindingView]) -> Vec<(&str, FindingVerdict)> {
        found.iter().filter(|one| one.is_bad()).map(|one| (one.check.as_str(), one.verdict)).collect()
    }

    #[test]
    fn a_file_that_could_lose_commits_grows_or_is_mostly_empty_is_reported() {
        let good =
            FileState { journal: "wal".to_owned(), synchronous: 2, bytes: 4 << 30, ..FileState::default() };
        for (state, wal_bytes, want) in [
            (good.clone(), 0, None),
            (
                FileState { journal: "delete".to_owned(), ..good.clone() },
                0,
                Some(("database.settings", Failure)),
            ),
            (FileState { synchronous: 1, ..good.clone() }, 0, Some(("database.settings", Failure))),
            (good.clone(), 300 << 20, Some(("database.wal", Warning))),
            (FileState { free_bytes: 3 << 30, ..good.clone() }, 0, Some(("database.bloat", Warning))),
        ] {
            assert_eq!(bad(&judged(&state, wal_bytes)), want.into_iter().collect::<Vec<_>>(), "{state:?}");
        }
        assert_eq!(bad(&pages(&["row 3 missing".to_owned()])), [("database.pages", Failure)]);
        assert_eq!(bad(&pages(&[])), []);
    }

    #[test]
    fn a_disk_is_judged_by_what_is_left_and_by_its_part() {
        let gib = 1_u64 << 30;
        for (free_bytes, all_bytes, want) in [
            (100 * gib, 1_000 * gib, None),
            (50 * gib, 1_000 * gib, None),
            (15 * gib, 1_000 * gib, Some(Warning)),
            (gib, 4 * gib, Some(Warning)),
            (gib / 8, 4 * gib, Some(Failure)),
            (gib, 1_000 * gib, Some(Failure)),
        ] {
            let found = [disk(DiskRoom { free_bytes, all_bytes }, Path::new("/x"))];
            let verdicts: Vec<FindingVerdict> = bad(&found).into_iter().map(|(_, verdict)| verdict).collect();
            assert_eq!(verdicts, want.into_iter().collect::<Vec<_>>(), "{free_bytes} of {all_bytes}");
        }
    }

    #[test]
    fn each_finding_of_the_witness_has_its_verdict_and_names_the_file() {
        for (finding, failed, want) in [
            (WitnessFinding::Same { at_ms: 0 }, None, Well),
            (WitnessFinding::Absent, None, Note),
            (WitnessFinding::Other, None, Warning),
            (WitnessFinding::Unreadable("no".to_owned()), None, Warning),
            (WitnessFinding::Same { at_ms: 0 }, Some("no room"), Warning),
            (WitnessFinding::Older { at_ms: 0 }, None, Failure),
        ] {
            let failed = failed.map(str::to_owned);
            let state = WitnessState { path: PathBuf::from("/x/y.db.witness"), finding, failed };
            let found = witness(Some(&state));
            assert_eq!(found[0].verdict, want, "{state:?}");
            assert_eq!(found[0].is_bad(), found[0].remedy.is_some(), "{state:?}");
            assert!(want == Failure || found[0].found.contains("/x/y.db.witness"), "{state:?}");
        }
        assert_eq!(witness(None), []);
    }

    #[test]
    fn a_unique_index_weighs_more_than_another() {
        let names = |name: &str| vec![name.to_owned()];
        let index = |is_unique| vec![("x".to_owned(), is_unique)];
        for (parts, want) in [
            (SchemaParts::default(), Well),
            (SchemaParts { tables_missing: names("x"), ..SchemaParts::default() }, Failure),
            (SchemaParts { triggers_missing: names("x"), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_missing: index(true), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_missing: index(false), ..SchemaParts::default() }, Warning),
            (SchemaParts { indexes_unfinished: index(true), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_unfinished: index(false), ..SchemaParts::default() }, Warning),
            (SchemaParts { indexes_others: index(true), ..SchemaParts::default() }, Failure),
            (SchemaParts { indexes_others: index(false), ..SchemaParts::default() }, Warning),
        ] {
            let found = schema(&parts);
            assert_eq!((found.len(), found[0].verdict), (1, want), "{parts:?}");
        }
    }

    fn table(live_n: i64, dead_n: i64, bytes: i64) -> ServerState {
        let name = "outbox_queue".to_owned();
        let table = TableState { name, live_n, dead_n, bytes, ..TableState::default() };
        ServerState { tables: vec![table], ..ServerState::default() }
    }

    #[test]
    fn what_blocks_vacuum_is_reported_with_its_figure() {
        #[track_caller]
        fn check(state: &ServerState, want: Option<(&str, &str, FindingVerdict)>) {
            let found = tables(state);
            let bad: Vec<_> = found
                .iter()
                .filter(|one| one.is_bad())
                .map(|one| (one.check.as_str(), one.subject.as_deref().unwrap_or_default(), one.verdict))
                .collect();
            assert_eq!(bad, want.into_iter().collect::<Vec<_>>(), "{state:?}");
        }
        let state = ServerState::default;
        check(&state(), None);
        check(&table(1_000, 900_000, 1 << 20), Some(("database.vacuum", "outbox_queue", Warning)));
        check(&table(900_001, 900_000, 1 << 20), None);
        check(&table(10, 90_000, 1 << 20), None);
        check(&table(10_000, 0, 1 << 30), Some(("database.bloat", "outbox_queue", Warning)));
        check(&table(1_000_000, 0, 1 << 30), None);
        for name in ["autovacuum", "track_counts"] {
            let settings = [(name.to_owned(), "off".to_owned())].into();
            check(&ServerState { settings, ..state() }, Some(("database.vacuum", name, Failure)));
        }
        check(&ServerState { ids_n: 600_000_000, ..state() }, Some(("database.vacuum", "ids", Warning)));
        check(&ServerState { ids_n: 1_600_000_000, ..state() }, Some(("database.vacuum", "ids", Failure)));
        check(&ServerState { oldest_s: 901, ..state() }, Some(("database.vacuum", "transactions", Warning)));
        check(&ServerState { prepared_n: 1, ..state() }, Some(("database.vacuum", "prepared", Warning)));
        check(&ServerState { held_bytes: 5 << 30, ..state() }, Some(("database.vacuum", "slots", Warning)));
        check(&ServerState { held_bytes: 33 << 30, ..state() }, Some(("database.vacuum", "slots", Failure)));
    }
}
