//! What arriving events notice while old ones are pruned: p99 with and without, at one rate, in turns; and how much is
//! pruned meanwhile, which must not be less than what arrives. Before that, how many events a second are pruned with all
//! their rows while nothing arrives, from a start and after three stalls. With `--round-trip-ms` and `--commit-ms` of a
//! PostgreSQL that is further away, or waits for a standby.

use std::time::{Duration, Instant};

use hooklatch_bench::{Bar, Chart, LoadPace, Scratch, Spread};

use crate::compare::Figures;
use crate::contestant::{Contestant, How};
use crate::database::{Database, Db, admin, server_port};
use crate::plan::Plan;
use crate::proxy::Proxy;
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
    let away = Away { round_trip_ms: plan.round_trip_ms, commit_ms: plan.commit_ms };
    let heading = format!("{db:?}, {per_second} events/s{}", away.words(db));
    println!("\n{heading}, {} rounds", plan.rounds_n);
    for what in ["from a start", "after three stalls"] {
        let mut rates = Vec::new();
        for _ in 0..plan.rounds_n {
            rates.push(alone(db, &away, what != "from a start").await);
        }
        plan.tell_ratio(
            &heading,
            &format!("events/s pruned with all their rows, {what}"),
            Spread::of(rates.into_iter()),
        );
    }
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
            let (database, _proxy) = away.take(database).await;
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

/// How far away the database is.
struct Away {
    round_trip_ms: u64,
    commit_ms: u64,
}

impl Away {
    fn words(&self, db: Db) -> String {
        if db == Db::Sqlite {
            return String::new();
        }
        format!(", round trip + {} ms, commit + {} ms", self.round_trip_ms, self.commit_ms)
    }

    /// Takes the database away so far, for those who connect from now on.
    async fn take(&self, database: Database) -> (Database, Option<Proxy>) {
        let Some(port) = server_port().filter(|_| database.db == Db::Postgres) else {
            return (database, None);
        };
        if self.commit_ms > 0 {
            let name = database.url.rsplit_once('/').unwrap().1;
            admin(format!("ALTER DATABASE {name} SET commit_delay = {}", self.commit_ms * 1_000)).await;
            admin(format!("ALTER DATABASE {name} SET commit_siblings = 0")).await;
        }
        let proxy = Proxy::start(port, Duration::from_micros(self.round_trip_ms * 500));
        let url = database.url.replacen(&format!(":{port}/"), &format!(":{}/", proxy.addr.port()), 1);
        (Database { url, ..database }, Some(proxy))
    }
}

/// Events a second that are pruned with all their rows while nothing arrives: over all of them, or over those that are
/// left after three stalls.
async fn alone(db: Db, away: &Away, is_stalled: bool) -> f64 {
    let home = Scratch::new().unwrap();
    let database = Database::migrated(db, &home).await;
    database.execute(&remembered::fill(db, OLD_N)).await;
    database.execute(&contents(db, OLD_N)).await;
    let mut scratch = Scratch::new().unwrap();
    let (database, proxy) = away.take(database).await;
    Contestant::Hooklatch.start_on(&database, &mut scratch, PRUNES);
    let until = async |rows_n: f64| {
        while left(&database).await > rows_n {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let all_n = (3 * OLD_N) as f64;
    until(all_n - 1.0).await;
    if is_stalled {
        until(all_n * 0.95).await;
        for _ in 0..3 {
            if let Some(proxy) = &proxy {
                proxy.stall(Duration::from_millis(400));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let (started, before_n) = (Instant::now(), left(&database).await);
    until(0.0).await;
    let per_second = before_n / 3.0 / started.elapsed().as_secs_f64();
    drop(scratch);
    database.drop().await;
    per_second
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
