//! What arriving events notice while old ones are pruned: p99 with and without, at one rate, in turns; and how much is
//! pruned meanwhile, which must not be less than what arrives.

use hooklatch_bench::{Bar, Chart, LoadPace, Scratch, Spread};

use crate::compare::Figures;
use crate::contestant::{Contestant, How};
use crate::database::{Database, Db};
use crate::plan::Plan;
use crate::remembered;

/// Events a second that arrive, unless `--rate` says otherwise: less than half of what either database takes here.
const PER_SECOND: u64 = 4_000;
const CONNECTIONS_N: usize = 64;

/// Events that are old: more than are pruned before the window ends, so that pruning goes on throughout.
const OLD_N: u64 = 300_000;

/// Configuration of Hooklatch that keeps everything, and that prunes whatever is old as fast as it allows itself.
const KEEPS: &str = "[retention]\nevery_ms = 0\n";
const PRUNES: &str = "[retention]\nevery_ms = 100\n";

/// Measures both in rounds, each on a database of its own with old events.
pub(crate) async fn measure(db: Db, plan: &mut Plan) {
    let connections_n =
        plan.connections.as_ref().and_then(|all| all.first().copied()).unwrap_or(CONNECTIONS_N);
    let per_second = plan.rate.unwrap_or(PER_SECOND);
    let heading = format!("{db:?}, {per_second} events/s");
    println!("\n{heading}, {} rounds", plan.rounds_n);
    let how = How {
        connections_n,
        pace: LoadPace::Open(per_second as f64),
        warm_up: plan.warm_up,
        window: plan.window * 3,
    };
    let arrived_n = 3.0 * per_second as f64 * (how.warm_up + how.window).as_secs_f64();
    let mut pruned = Vec::new();
    let mut rounds: Vec<[Figures; 2]> = Vec::new();
    for _ in 0..plan.rounds_n {
        let mut round = Vec::new();
        for more in [KEEPS, PRUNES] {
            let home = Scratch::new().unwrap();
            let database = Database::migrated(db, &home).await;
            database.execute(&remembered::fill(db, OLD_N)).await;
            database.execute(&contents(db, OLD_N)).await;
            let scratch = Scratch::new().unwrap();
            round.push(Figures::of(&Contestant::Hooklatch.measure_on(&database, scratch, &how, more).await));
            if more == PRUNES {
                pruned.push((3 * OLD_N) as f64 - left(&database).await);
            }
            database.drop().await;
        }
        rounds.push([round[0], round[1]]);
    }
    // A key, a payload and a message each, old or new.
    let kept_up = Spread::of(pruned.iter().map(|pruned_n| pruned_n / arrived_n));
    plan.tell_ratio(&heading, "rows pruned / rows arrived (must not be below 1)", kept_up);
    let mut bars = Vec::new();
    for (n, title) in ["nothing is pruned", "old events are pruned"].into_iter().enumerate() {
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

/// Rows of old events that are still there.
async fn left(database: &Database) -> f64 {
    let mut rows_n = 0;
    for sql in [
        format!("SELECT COUNT(*) FROM processed_webhook_events WHERE event_seq <= {OLD_N}"),
        format!("SELECT COUNT(*) FROM webhook_payloads WHERE event_seq <= {OLD_N}"),
        format!("SELECT COUNT(*) FROM outbox_finished WHERE message_id <= {OLD_N} * 1024"),
    ] {
        rows_n += database.count(sql).await;
    }
    rows_n as f64
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
