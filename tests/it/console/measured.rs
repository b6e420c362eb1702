//! The cost of each page of the console, with one and with five million events: time to the first byte, statements,
//! time in the database.

use std::fmt::Write;
use std::time::{Duration, Instant};

use sqlx::{PgConnection, Row};

use crate::database::Database;
use crate::look::serve;
use crate::store::read_plans::filled;

/// Times that each page is asked for.
const TIMES: usize = 11;

/// Every page, with the filters that cost most; `EVENT` and `MESSAGE` are one of the newest.
const PAGES: [&str; 22] = [
    "/",
    "/events",
    "/events?provider=rare",
    "/events?state=failed",
    "/events?state=failed&provider=rare",
    "/events?object=in_7",
    "/events?type=rare",
    "/events/p1/EVENT",
    "/messages",
    "/messages?state=ready&destination=billing",
    "/messages/MESSAGE",
    "/lanes",
    "/destinations",
    "/destinations/billing",
    "/senders",
    "/rejected",
    "/search?id=EVENT",
    "/search?id=absent-has-this",
    "/operations/new?subject=events&state=failed",
    "/operations/new/rerun?subject=events&state=failed",
    "/operations",
    "/audit",
];

/// `scripts/postgres -c shared_preload_libraries=pg_stat_statements -- cargo nextest run --run-ignored only
/// page_of_the_console --no-capture`: the table in docs/benchmarks.md. About two minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, and measures times instead of right and wrong"]
async fn what_each_page_of_the_console_costs_with_a_million_events_and_with_five() {
    for n in [1_000_000, 5_000_000] {
        let Some((database, admin)) = filled(n).await else { return };
        let table = measure(&database, admin, n - 9).await;
        eprintln!(
            "MEASURED with {n} events\n\
             | page | kB | first byte, median | worst | statements | in the database |\n|---|---|---|---|---|---|\n{table}"
        );
    }
}

async fn measure(database: &Database, mut admin: PgConnection, newest: u32) -> String {
    sqlx::raw_sql("VACUUM ANALYZE; ").execute(&mut admin).await.unwrap();
    sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").execute(&mut admin).await.unwrap();
    let server = serve(database).await;
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let base = format!("http://{}", server.admin);
    let form = client.post(format!("{base}/sign-in")).header("origin", &base);
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let signed = form.body("token=operator-token-0123456789&to=/").send().await.unwrap();
    let cookie = signed.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mut table = String::new();
    for page in PAGES {
        let (event, message) = (format!("evt_{newest}"), (u64::from(newest) * 1_024).to_string());
        let page = page.replace("EVENT", &event).replace("MESSAGE", &message);
        sqlx::raw_sql("SELECT pg_stat_statements_reset()").execute(&mut admin).await.unwrap();
        let (mut all, mut bytes_n) = (Vec::new(), 0);
        for _ in 0..TIMES {
            let began = Instant::now();
            let answer = client.get(format!("{base}{page}")).header("cookie", &cookie).send().await.unwrap();
            all.push(began.elapsed());
            assert!(matches!(answer.status().as_u16(), 200 | 303), "{page}: {}", answer.status());
            bytes_n = answer.bytes().await.unwrap().len();
        }
        all.sort_unstable();
        // What a page asks it asks every time; the node's own looks come less often.
        let cost = "SELECT COALESCE(SUM(calls), 0)::BIGINT AS calls_n,
                COALESCE(SUM(total_exec_time + total_plan_time), 0) AS spent_ms
            FROM pg_stat_statements WHERE calls >= $1 AND query NOT LIKE '%pg_stat_statements%'";
        let cost = sqlx::query(cost).bind(i64::try_from(TIMES).unwrap()).fetch_one(&mut admin).await.unwrap();
        let times = f64::from(u32::try_from(TIMES).unwrap());
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let calls = cost.get::<i64, _>("calls_n") as f64 / times;
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        writeln!(
            table,
            "| `{page}` | {} | {:.1} | {:.1} | {calls:.1} | {:.1} |",
            bytes_n.div_ceil(1_000),
            ms(all[TIMES / 2]),
            ms(all[TIMES - 1]),
            cost.get::<f64, _>("spent_ms") / times,
        )
        .unwrap();
    }
    table
}
