//! What an event costs when millions of ids are remembered, their contents and messages long gone: CPU as a ratio to an
//! empty database, in turns.

use hooklatch_bench::{Bar, Chart, LoadPace, Scratch, Spread};

use crate::compare::Figures;
use crate::contestant::{Contestant, How};
use crate::database::{Database, Db};
use crate::plan::Plan;

/// Ids remembered, unless `--rows` says otherwise.
const ROWS: [u64; 2] = [5_000_000, 10_000_000];
const CONNECTIONS_N: usize = 64;

/// Measures an empty database and each that is full, in rounds; those that are full are filled once.
pub(crate) async fn measure(db: Db, plan: &mut Plan) {
    let rows = plan.rows.clone().unwrap_or_else(|| ROWS.to_vec());
    let connections_n =
        plan.connections.as_ref().and_then(|all| all.first().copied()).unwrap_or(CONNECTIONS_N);
    let heading = format!("{db:?}, {connections_n} connections, ids remembered");
    println!("\n{heading}: CPU for an event, {} rounds", plan.rounds_n);
    let mut full = Vec::new();
    for rows_n in &rows {
        // The folder holds SQLite's file, so it stays; each server gets one of its own.
        let home = Scratch::new().unwrap();
        let database = Database::migrated(db, &home).await;
        let started = std::time::Instant::now();
        database.execute(&fill(db, *rows_n)).await;
        println!("{rows_n} ids written in {:.0} s", started.elapsed().as_secs_f64());
        full.push((home, database));
    }
    let how = How { connections_n, pace: LoadPace::Closed, warm_up: plan.warm_up, window: plan.window };
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    for _ in 0..plan.rounds_n {
        let mut round = vec![Figures::of(&Contestant::Hooklatch.measure(db, &how).await)];
        for (_, database) in &full {
            let scratch = Scratch::new().unwrap();
            round.push(Figures::of(&Contestant::Hooklatch.measure_on(database, scratch, &how, "").await));
        }
        rounds.push(round);
    }
    let mut bars = Vec::new();
    for (n, rows_n) in std::iter::once(&0).chain(&rows).enumerate() {
        let of = |what: fn(&Figures) -> f64| Spread::of(rounds.iter().map(|round| what(&round[n])));
        let cpu = of(|one| one.cpu_us);
        println!("{rows_n:>10} ids: {cpu} µs, p99 {:.2} ms", of(|one| one.p99_ms).median);
        bars.push(Bar { label: format!("{rows_n} ids"), value: cpu.median, range: (cpu.min, cpu.max) });
        if n > 0 {
            let ratio = Spread::of(rounds.iter().map(|round| round[n].cpu_us / round[0].cpu_us));
            plan.tell_ratio(&heading, &format!("CPU for an event, {rows_n} ids / none"), ratio);
            let ratio = Spread::of(rounds.iter().map(|round| round[n].p99_ms / round[0].p99_ms));
            plan.tell_ratio(&heading, &format!("p99, {rows_n} ids / none"), ratio);
        }
    }
    plan.draw(Chart::bars(&format!("{heading}: CPU for an event, µs"), bars));
    for (home, database) in full {
        database.drop().await;
        drop(home);
    }
}

/// Statements that write so many random ids, in random order, as pages look after years.
pub(crate) fn fill(db: Db, rows_n: u64) -> Vec<String> {
    let columns = "provider, event_id, event_seq, shard, event_type, digest, identity, state, received_at_ms, generation, attempts_n";
    // Numbers above are still to be given.
    let next = rows_n.next_multiple_of(4_096) + 4_096;
    if db == Db::Postgres {
        let insert = format!(
            "INSERT INTO processed_webhook_events ({columns})
             SELECT 'stripe', 'evt_1P' || lpad((hashint8extended(n, 7) & 9223372036854775807)::text, 19, '0'), n, n % 1024,
                    'invoice.paid', decode(md5(n::text) || md5((n + 1)::text), 'hex'), 'sender/1', 'handled', n, 0, 1
             FROM generate_series(1, {rows_n}) AS n ON CONFLICT DO NOTHING"
        );
        let number = format!("SELECT setval('event_blocks', {next}, false)");
        let settled = ["VACUUM ANALYZE processed_webhook_events", "CHECKPOINT"].map(str::to_owned);
        return [insert, number].into_iter().chain(settled).collect();
    }
    let insert = format!(
        "INSERT OR IGNORE INTO processed_webhook_events ({columns})
         WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {rows_n})
         SELECT 'stripe', printf('evt_1P%019d', random() & 9223372036854775807), n, n % 1024, 'invoice.paid', randomblob(32),
                'sender/1', 'handled', n, 0, 1 FROM n"
    );
    vec![insert, format!("UPDATE event_blocks SET next_seq = {next}"), "ANALYZE".to_owned()]
}
