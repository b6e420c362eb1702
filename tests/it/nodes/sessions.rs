//! Settings that PostgreSQL needs before any event is confirmed, and how a start waits for it.

use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::server::Postgres;
use super::{database, refused};
use crate::database::{Database, On};
use crate::process::{Server, client, free_port, post_stripe, until};

async fn alter(own: &Database, what: &str) {
    let name = own.url.rsplit_once('/').unwrap().1;
    let mut db = PgConnection::connect(&own.url).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(what.replace("$name", name))).execute(&mut db).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_confirms_before_its_standby_has_written_is_refused() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    for value in ["local", "remote_write", "off"] {
        for place in ["DATABASE $name", "ROLE postgres IN DATABASE $name"] {
            alter(&own, &format!("ALTER {place} SET synchronous_commit = {value}")).await;
            let said = refused(&own.url, "");
            assert!(said.contains(&format!("synchronous_commit = {value}")), "{place}: {said}");
            assert!(said.contains("set it to on, or remote_apply"), "{place}: {said}");
            alter(&own, &format!("ALTER {place} RESET synchronous_commit")).await;
        }
    }
    alter(&own, "ALTER DATABASE $name SET synchronous_commit = remote_apply").await;
    drop(Server::start(&own.url, "").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_synchronous_standby_is_refused_when_one_is_wanted() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    let said = refused(&own.url, "replicated = true");
    assert!(said.contains("synchronous_standby_names"), "{said}");
    drop(Server::start(&database(&own.url, "replicated = false"), "").await);
}

/// What the role or the database has otherwise does not matter: the session sets its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_the_role_do_not_reach_our_sessions() {
    let Some(own) = Database::create(On::Postgres).await else { return };
    alter(&own, "ALTER DATABASE $name SET lock_timeout = 0").await;
    alter(&own, "ALTER DATABASE $name SET default_transaction_isolation = 'serializable'").await;
    alter(&own, "ALTER DATABASE $name SET statement_timeout = '1ms'").await;
    let server = Server::start(&own.url, "").await;
    let taken = post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await;
    assert_eq!(taken, Ok("accepted".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_a_database_that_takes_writes() {
    let Some(mut primary) = Postgres::start(&[]).await else { return };
    let standby = primary.standby("one", &[]).await;
    primary.kill();
    // No server listens, then a standby that takes no writes, then it does.
    let closed = free_port();
    let url = format!("postgres://postgres@{closed},127.0.0.1:{}/postgres", standby.port);
    let mut server = Server::prepare(&url, "");
    let path = server.config().with_file_name("log");
    let log = move || std::fs::read_to_string(&path).unwrap_or_default();
    let promoted = async || {
        until("it says what it sees", Duration::from_secs(20), &log, async || {
            log().contains("in recovery") && log().contains(&closed.to_string())
        })
        .await;
        standby.promote().await;
    };
    tokio::join!(server.spawn(), promoted());
    let said = refused(&format!("postgres://postgres@{closed}/postgres"), "connect_wait_ms = 1000");
    assert!(said.contains("could not open the database"), "{said}");
}
