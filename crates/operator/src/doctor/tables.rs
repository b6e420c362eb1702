//! PostgreSQL's tables: dead rows, ids, what holds vacuum back, and room that nothing is in.

use super::check::{BLOAT, VACUUM, or_well};
use hooklatch_contract::FindingView;
use hooklatch_core::figures::grouped;
use hooklatch_store::{ServerState, TableState};

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
const LARGE_BYTES: i64 = 256 << 20;

pub(crate) fn tables(state: &ServerState) -> Vec<FindingView> {
    let mut found = Vec::new();
    for name in ["autovacuum", "track_counts"].into_iter().filter(|name| state.setting(name) == "off") {
        let why = VACUUM.failure(format!("{name} = off")).about(name).against("on");
        found.push(why.cure(format!("ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()")));
    }
    found.extend(state.tables.iter().filter_map(turned_off));
    found.extend(state.tables.iter().filter_map(dead));
    let [warns, fails] = IDS_N;
    if state.ids_n > warns {
        let words = format!("the oldest transaction id is {} old", grouped(state.ids_n.unsigned_abs()));
        let remedy = "VACUUM (FREEZE), after ending what holds it back";
        found.push(
            VACUUM
                .graded(words, (true, state.ids_n > fails), remedy)
                .about("ids")
                .against(grouped(warns.unsigned_abs())),
        );
    }
    if state.oldest_s > OLDEST_S {
        let words = format!("a transaction is open for {} minutes", state.oldest_s / 60);
        let why = VACUUM.warning(words).about("transactions").against("15 minutes");
        found.push(why.cure("SELECT pid, xact_start, query FROM pg_stat_activity ORDER BY xact_start LIMIT 5; end it by pg_terminate_backend(pid)"));
    }
    if state.prepared_n > 0 {
        let why =
            VACUUM.warning(format!("{} prepared transactions are older than 5 minutes", state.prepared_n));
        found.push(
            why.about("prepared")
                .against("none")
                .cure("SELECT gid FROM pg_prepared_xacts; COMMIT PREPARED or ROLLBACK PREPARED each"),
        );
    }
    let [warns, fails] = HELD_BYTES;
    if state.held_bytes > warns {
        let words =
            format!("{} MiB of WAL are held for a slot that no standby reads", state.held_bytes >> 20);
        let remedy =
            "SELECT slot_name FROM pg_replication_slots WHERE NOT active; drop it, or start its reader";
        found.push(
            VACUUM
                .graded(words, (true, state.held_bytes > fails), remedy)
                .about("slots")
                .against("4,096 MiB"),
        );
    }
    let dead_n: i64 = state.tables.iter().map(|table| table.dead_n).sum();
    let mut all = or_well(found, || {
        VACUUM.well(format!(
            "{} dead rows; ids are {} old",
            grouped(dead_n.unsigned_abs()),
            grouped(state.ids_n.unsigned_abs())
        ))
    });
    let bloated: Vec<FindingView> = state.tables.iter().filter_map(bloated).collect();
    all.extend(or_well(bloated, || BLOAT.well("no table is longer than its rows say")));
    all
}

fn turned_off(table: &TableState) -> Option<FindingView> {
    table.is_without_vacuum.then(|| {
        let dead = grouped(table.dead_n.unsigned_abs());
        let why = VACUUM.warning(format!("autovacuum is turned off for this table; it has {dead} dead rows"));
        why.about(&table.name)
            .against("on")
            .cure(format!("ALTER TABLE {} RESET (autovacuum_enabled)", table.name))
    })
}

fn dead(table: &TableState) -> Option<FindingView> {
    let is_many = table.dead_n > DEAD_N && table.dead_n > table.live_n;
    let vacuumed = table
        .vacuumed_s
        .map_or_else(|| "never vacuumed".to_owned(), |s| format!("vacuumed {} minutes ago", s / 60));
    is_many.then(|| {
        let [dead, live] = [table.dead_n, table.live_n].map(|n| grouped(n.unsigned_abs()));
        let why = VACUUM.warning(format!("{dead} dead rows beside {live} live ones, {vacuumed}"));
        why.about(&table.name).against("100,000 dead rows, and more than the live ones").cure(format!(
            "VACUUM (VERBOSE) {}; if it removes nothing, something holds it back: an old transaction, a slot, a standby",
            table.name
        ))
    })
}

fn bloated(table: &TableState) -> Option<FindingView> {
    let rows_n = table.live_n.saturating_add(table.dead_n).max(1);
    let is_bloated = table.bytes > LARGE_BYTES && table.bytes / rows_n > ROW_BYTES;
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
    use hooklatch_contract::FindingVerdict::{self, Failure, Warning};

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
