//! A program's own tables: its migrations are applied once, by whichever node starts, and never half.

use hooklatch::App;
use hooklatch_store::{MigrationStep, ProgramMigrations, Store, StoreSettings};

use crate::database::{Database, on_both};
use crate::process::SECRET;

on_both!(
    steps_are_applied_once_in_their_order,
    nodes_that_start_at_once_apply_a_step_once,
    a_step_that_fails_names_itself_and_leaves_nothing,
    a_step_that_ends_its_transaction_fails_and_is_not_recorded,
    a_text_that_was_changed_after_it_was_applied_is_refused,
    a_step_before_one_that_was_applied_is_refused,
    a_node_that_may_not_migrate_reports_what_is_missing,
    the_app_migrates_after_our_own_schema,
    invalid_migration_names_fail_the_start,
);

const FIRST: (&str, &str) =
    ("0001_ledger", "CREATE TABLE ledger (n BIGINT); INSERT INTO ledger (n) VALUES (1)");
const SECOND: (&str, &str) = ("0002_doubled", "UPDATE ledger SET n = 2 * n");
const BROKEN: (&str, &str) = ("0003_broken", "CREATE TABLE half (n BIGINT); NONSENSE");

fn ledger(steps: &[(&'static str, &'static str)]) -> ProgramMigrations {
    ProgramMigrations::new("ledger", steps.iter().map(|step| MigrationStep::from(*step)).collect())
}

/// The error at the start of an app with these migrations; nothing where it starts.
async fn start(
    database: &Database,
    is_migrated: bool,
    program: &str,
    steps: &[(&'static str, &'static str)],
) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    let toml = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [database]\nurl = \"{}\"\nmigrate = {is_migrated}\n\
         [providers.stripe]\nsecrets = [\"{SECRET}\"]\n",
        database.url
    );
    std::fs::write(&file, toml).unwrap();
    let app = App::load(Some(&file), vec![hooklatch::kind("stripe")]).unwrap();
    match app.migrate(program, steps.iter().copied()).start().await {
        Ok(running) => {
            running.stop().await;
            String::new()
        }
        Err(error) => format!("{error:#}"),
    }
}

async fn steps_are_applied_once_in_their_order(database: &Database) {
    let store = database.store().await;
    assert_eq!(store.program_migrate(&ledger(&[FIRST])).await.unwrap(), ["0001_ledger"]);
    assert_eq!(store.program_migrate(&ledger(&[FIRST, SECOND])).await.unwrap(), ["0002_doubled"]);
    assert!(store.program_migrate(&ledger(&[FIRST, SECOND])).await.unwrap().is_empty());
    assert_eq!(database.count("SELECT CAST(SUM(n) AS BIGINT) FROM ledger").await, 2);
    // A program that was put back one version finds what it needs.
    assert!(store.program_migrate(&ledger(&[FIRST])).await.unwrap().is_empty());
    let other =
        ProgramMigrations::new("other", vec![("0001_ledger", "CREATE TABLE other (n BIGINT)").into()]);
    assert_eq!(store.program_migrate(&other).await.unwrap(), ["0001_ledger"], "names are a program's own");
}

async fn nodes_that_start_at_once_apply_a_step_once(database: &Database) {
    let store = database.store().await;
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = store.clone();
        nodes.spawn(async move { store.program_migrate(&ledger(&[FIRST, SECOND])).await.unwrap().len() });
    }
    let applied_n: usize = nodes.join_all().await.into_iter().sum();
    assert_eq!(applied_n, 2, "each step by one of them");
    assert_eq!(database.count("SELECT CAST(SUM(n) AS BIGINT) FROM ledger").await, 2);
}

async fn a_step_that_fails_names_itself_and_leaves_nothing(database: &Database) {
    let store = database.store().await;
    let error = store.program_migrate(&ledger(&[FIRST, BROKEN])).await.unwrap_err();
    let why = error.to_string();
    assert_eq!(format!("{:#}", anyhow::Error::from(error)), why, "the reason is reported once");
    assert!(why.starts_with("migration `0003_broken` of `ledger` failed and left nothing: "), "{why}");
    assert_eq!(
        database.count("SELECT COUNT(*) FROM hooklatch_program_migrations").await,
        1,
        "the first one stays"
    );
    let repaired = ledger(&[FIRST, ("0003_broken", "CREATE TABLE half (n BIGINT)")]);
    assert_eq!(store.program_migrate(&repaired).await.unwrap(), ["0003_broken"], "its table was not there");
}

async fn a_step_that_ends_its_transaction_fails_and_is_not_recorded(database: &Database) {
    let store = database.store().await;
    store.program_migrate(&ledger(&[FIRST])).await.unwrap();
    for (name, text) in [
        ("commit", "CREATE TABLE first_half (n BIGINT); COMMIT"),
        ("rollback", "CREATE TABLE undone (n BIGINT); ROLLBACK"),
        ("commit_and_begin", "CREATE TABLE second_half (n BIGINT); COMMIT; BEGIN"),
        ("commit_and_fail", "CREATE TABLE third_half (n BIGINT); COMMIT; CREATE TABLE ledger (n BIGINT)"),
    ] {
        let why = store.program_migrate(&ledger(&[FIRST, (name, text)])).await.unwrap_err().to_string();
        assert!(why.starts_with(&format!("migration `{name}` of `ledger` ended the transaction")), "{why}");
        assert_eq!(database.count("SELECT COUNT(*) FROM hooklatch_program_migrations").await, 1, "{name}");
    }
    assert_eq!(store.program_migrate(&ledger(&[FIRST, SECOND])).await.unwrap(), ["0002_doubled"]);
}

async fn a_text_that_was_changed_after_it_was_applied_is_refused(database: &Database) {
    let store = database.store().await;
    store.program_migrate(&ledger(&[FIRST])).await.unwrap();
    let changed = ledger(&[("0001_ledger", "CREATE TABLE ledger (n BIGINT, note TEXT)"), SECOND]);
    for refused in [store.program_migrate(&changed).await.map(drop), store.program_check(&changed).await] {
        let why = refused.unwrap_err().to_string();
        assert!(
            why.contains("`0001_ledger` of `ledger` has another text")
                && why.contains("put the old text back"),
            "{why}"
        );
    }
    assert_eq!(database.count("SELECT n FROM ledger").await, 1, "the step behind it was not applied");
}

async fn a_step_before_one_that_was_applied_is_refused(database: &Database) {
    let store = database.store().await;
    store.program_migrate(&ledger(&[FIRST])).await.unwrap();
    let why =
        store.program_migrate(&ledger(&[("0000_early", "SELECT 1"), FIRST])).await.unwrap_err().to_string();
    assert!(why.contains("`0000_early` of `ledger` stands before `0001_ledger`"), "{why}");
}

async fn a_node_that_may_not_migrate_reports_what_is_missing(database: &Database) {
    database.store().await.close().await;
    let why = start(database, false, "ledger", &[FIRST, SECOND]).await;
    assert!(
        why.contains("migration `0001_ledger` of `ledger` is missing") && why.contains("database.migrate"),
        "{why}"
    );
    assert_eq!(start(database, true, "ledger", &[FIRST]).await, "");
    let why = start(database, false, "ledger", &[FIRST, SECOND]).await;
    assert!(why.contains("migration `0002_doubled` of `ledger` is missing"), "{why}");
    assert_eq!(start(database, false, "ledger", &[FIRST]).await, "");
}

async fn the_app_migrates_after_our_own_schema(database: &Database) {
    let step = (
        "0001_view",
        "CREATE VIEW open_events AS SELECT event_id FROM processed_webhook_events WHERE state = 'retry'",
    );
    assert_eq!(start(database, true, "views", &[step]).await, "");
    assert_eq!(start(database, true, "views", &[step]).await, "");
    assert_eq!(database.count("SELECT COUNT(*) FROM open_events").await, 0);
}

async fn invalid_migration_names_fail_the_start(database: &Database) {
    let database = &Database::empty(database.on()).await.unwrap();
    for (program, steps, want) in [
        ("Ledger of ours", &[FIRST][..], "`Ledger of ours` is not a name"),
        ("ledger", &[FIRST, FIRST], "two migrations of `ledger` are called `0001_ledger`"),
        ("ledger", &[("", "SELECT 1")], "a migration of `ledger` has no name"),
        ("ledger", &[("0001\0", "SELECT 1")], "migration `0001\\0` of `ledger` has a control character"),
    ] {
        let why = start(database, true, program, steps).await;
        assert!(why.contains(want), "{why}");
    }
    let settings = StoreSettings { url: database.url.clone(), connections_n: 6 };
    let store = Store::open(&settings).await.unwrap();
    assert!(!store.schema_state().await.unwrap().is_usable(), "nothing was done to the database");
}

#[test]
fn two_lists_of_one_name_are_reported_with_all_other_mistakes() {
    let lists = [ledger(&[FIRST]), ledger(&[SECOND]), ledger(&[("", "SELECT 1")])];
    let mistakes = ProgramMigrations::mistakes(&lists);
    assert!(mistakes[0].contains("has no name"), "{mistakes:?}");
    assert!(mistakes[1].starts_with("two lists of migrations are called `ledger`"), "{mistakes:?}");
    assert_eq!(mistakes.len(), 2);
    assert!(ProgramMigrations::mistakes(&lists[..1]).is_empty());
}
