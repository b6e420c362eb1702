//! What honest events notice while as much is pruned as arrives: p99 with and without, at one rate, in turns.

use hooklatch::bench::{Bar, Chart, Pace, Scratch, Spread};

use crate::compare::Figures;
use crate::contestant::{Contestant, How};
use crate::database::{Database, Db};
use crate::plan::Plan;
use crate::remembered;

/// Events a second that arrive, and that are pruned: less than half of what either database takes here.
const PER_SECOND: u64 = 4_000;
const CONNECTIONS_N: usize = 64;

/// Configuration of Hooklatch that keeps everything, and that prunes whatever is old at the rate of arrival.
const KEEPS: &str = "";
const PRUNES: &str = "";

/// Measures both in rounds, each on a database with as much that is old as is pruned in one window.
pub(crate) async fn measure(db: Db, plan: &mut Plan) {
    let connections_n =
        plan.connections.as_ref().and_then(|all| all.first().copied()).unwrap_or(CONNECTIONS_N);
    let heading = format!("{db:?}, {PER_SECOND} events/s");
    println!("\n{heading}, {} rounds", plan.rounds_n);
    let how = How {
        connections_n,
        #[expect(clippy::cast_precision_loss, reason = "small")]
        pace: Pace::Open(PER_SECOND as f64),
        warm_up: plan.warm_up,
        window: plan.window * 3,
    };
    let old_n = PER_SECOND * (how.warm_up + how.window).as_secs().max(1) * 2;
    let mut rounds: Vec<[Figures; 2]> = Vec::new();
    for _ in 0..plan.rounds_n {
        let mut round = Vec::new();
        for more in [KEEPS, PRUNES] {
            let home = Scratch::new().unwrap();
            let database = Database::migrated(db, &home).await;
            database.execute(&remembered::fill(db, old_n)).await;
            database.execute(&contents(db, old_n)).await;
            let scratch = Scratch::new().unwrap();
            round.push(Figures::of(&Contestant::Hooklatch.measure_on(&database, scratch, &how, more).await));
            database.drop().await;
        }
        rounds.push([round[0], round[1]]);
    }
    let mut bars = Vec::new();
    for (n, title) in ["nothing is pruned", "as much is pruned as arrives"].into_iter().enumerate() {
        let p99 = Spread::of(rounds.iter().map(|round| round[n].p99_ms));
        let cpu = Spread::of(rounds.iter().map(|round| round[n].cpu_us));
        println!("{title:<30} p99 {p99} ms, CPU {cpu} µs");
        bars.push(Bar { label: title.to_owned(), value: p99.median, range: (p99.min, p99.max) });
    }
    let ratio = Spread::of(rounds.iter().map(|[keeps, prunes]| prunes.p99_ms / keeps.p99_ms));
    plan.tell_ratio(&heading, "p99, pruned / not", ratio);
    let ratio = Spread::of(rounds.iter().map(|[keeps, prunes]| prunes.cpu_us / keeps.cpu_us));
    plan.tell_ratio(&heading, "CPU for an event, pruned / not", ratio);
    plan.draw(Chart::bars(&format!("{heading}: p99, ms"), bars));
}

/// The bytes of the events that `remembered::fill` wrote, and their finished messages.
fn contents(db: Db, rows_n: u64) -> Vec<String> {
    let (series, body) = match db {
        Db::Postgres => {
            (format!("generate_series(1, {rows_n}) AS n(n)"), "convert_to(repeat(md5(n::text), 64), 'UTF8')")
        }
        Db::Sqlite => (
            format!(
                "(WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows_n}) SELECT n FROM n)"
            ),
            "randomblob(2048)",
        ),
    };
    vec![
        format!(
            "INSERT INTO webhook_payloads (event_seq, shard, headers, body)
             SELECT n, n % 1024, '{{}}', {body} FROM {series}"
        ),
        format!(
            "INSERT INTO outbox_finished (message_id, shard, generation, destination, state, attempts_n, http_status,
                 created_at_ms, first_sent_at_ms, finished_at_ms)
             SELECT n * 1024, n % 1024, 0, 'silent', 'done', 1, 200, n, n, n FROM {series}"
        ),
    ]
}
