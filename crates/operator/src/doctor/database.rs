//! Looks at a database, whether a server runs on it or not.

use super::bounded::{DEEP_LIMIT, LOOK_LIMIT, bounded};
use super::check::{CLOCK_DATABASE, DISK, PAGES, SCHEMA, SETTINGS, WITNESS};
use super::clocks::database_clock;
use super::file::{at_its_path, disk_of, file, pages};
use super::node::SEEN_MS;
use super::schema::schema;
use super::server::{DatabaseWants, server};
use super::tables::tables;
use super::witness::witness;
use hooklatch_contract::FindingView;
use hooklatch_core::config::{DatabaseConfig, PoolingConfig};
use hooklatch_core::types::Clock;
use hooklatch_outbox::clock_offset_ms_max;
use hooklatch_store::{DatabaseState, Store, StoreError};

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
    // Concurrent: each has its own limit, and the doctor does not wait for their sum.
    let (clocks, parts, state, beside, disk, whole) = tokio::join!(clocks, parts, state, beside, disk, whole);
    [clocks, parts, state, beside, disk, whole].concat()
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
