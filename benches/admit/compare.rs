//! Rounds of contestants in turns, what each did, and ratios of neighbours in time.

use hooklatch_bench::{Bar, Chart, LoadPace, Measured, Spread};

use crate::contestant::{Contestant, How};
use crate::database::Db;
use crate::plan::Plan;

/// What one contestant did in one window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Of server and database for each event. Microseconds.
    pub(crate) cpu_us: f64,
    pub(crate) server_us: f64,
    pub(crate) generator_us: f64,
}

impl Figures {
    pub(crate) fn of(measured: &Measured) -> Self {
        let each = |us| measured.each(us).unwrap_or_default();
        Self {
            per_second: measured.requests_n() as f64 / measured.window.as_secs_f64(),
            p50_ms: measured.latency_ms(0.5),
            p99_ms: measured.latency_ms(0.99),
            cpu_us: each(measured.cpu.both()),
            server_us: each(measured.cpu.server),
            generator_us: each(measured.cpu.generator),
        }
    }
}

/// A ratio that the comparison is about: its name, and which figure of whom over which of whom.
type Ratio = (&'static str, Contestant, Contestant, fn(Figures, Figures) -> f64);

const RATIOS: [Ratio; 14] = [
    ("events, Hooklatch / by hand (c/a)", Contestant::Hooklatch, Contestant::HandWritten, |c, a| {
        c.per_second / a.per_second
    }),
    (
        "CPU for an event, by hand / Hooklatch (a/c)",
        Contestant::Hooklatch,
        Contestant::HandWritten,
        |c, a| a.cpu_us / c.cpu_us,
    ),
    ("p50, Hooklatch / by hand (c/a)", Contestant::Hooklatch, Contestant::HandWritten, |c, a| {
        c.p50_ms / a.p50_ms
    }),
    ("p99, Hooklatch / by hand (c/a)", Contestant::Hooklatch, Contestant::HandWritten, |c, a| {
        c.p99_ms / a.p99_ms
    }),
    ("events, admitted / verified only (c/b)", Contestant::Hooklatch, Contestant::VerifyOnly, |c, b| {
        c.per_second / b.per_second
    }),
    ("CPU, content keys / sender keys (d/c)", Contestant::ContentKeys, Contestant::Hooklatch, |d, c| {
        d.cpu_us / c.cpu_us
    }),
    ("events, in lanes / without (j/c)", Contestant::InLanes, Contestant::Hooklatch, |j, c| {
        j.per_second / c.per_second
    }),
    ("CPU for an event, in lanes / without (j/c)", Contestant::InLanes, Contestant::Hooklatch, |j, c| {
        j.cpu_us / c.cpu_us
    }),
    ("events, Hooklatch / FastAPI (c/e)", Contestant::Hooklatch, Contestant::FastApi, |c, e| {
        c.per_second / e.per_second
    }),
    ("events, Hooklatch / Express (c/f)", Contestant::Hooklatch, Contestant::Express, |c, f| {
        c.per_second / f.per_second
    }),
    ("events, collector gone / not traced (g/c)", Contestant::TracedGone, Contestant::Hooklatch, |g, c| {
        g.per_second / c.per_second
    }),
    (
        "events, collector stalls / not traced (h/c)",
        Contestant::TracedStalled,
        Contestant::Hooklatch,
        |h, c| h.per_second / c.per_second,
    ),
    ("events, collector takes / not traced (i/c)", Contestant::TracedTaken, Contestant::Hooklatch, |i, c| {
        i.per_second / c.per_second
    }),
    ("events, by hand / Express (a/f)", Contestant::HandWritten, Contestant::Express, |a, f| {
        a.per_second / f.per_second
    }),
];

/// Loads everybody over so many connections, in rounds; prints the table and keeps it for the picture.
pub(crate) async fn compare(db: Db, connections_n: usize, contestants: &[Contestant], plan: &mut Plan) {
    let there: Vec<Contestant> = contestants.iter().copied().filter(|one| one.is_there(db)).collect();
    let heading = format!("{db:?}, {connections_n} connections, {} rounds", plan.rounds_n);
    println!("\n{heading}, 2 KiB signed bodies, durable settings");
    let how = How { connections_n, pace: LoadPace::Closed, warm_up: plan.warm_up, window: plan.window };
    let mut rounds: Vec<Vec<Figures>> = Vec::new();
    for _ in 0..plan.rounds_n {
        let mut round = Vec::new();
        for contestant in &there {
            round.push(Figures::of(&contestant.measure(db, &how).await));
        }
        rounds.push(round);
    }
    table(&heading, &there, &rounds, plan);
    for (what, over, under, of) in RATIOS {
        let at = |one: Contestant| there.iter().position(|contestant| *contestant == one);
        let (Some(over), Some(under)) = (at(over), at(under)) else { continue };
        plan.tell_ratio(&heading, what, Spread::of(rounds.iter().map(|round| of(round[over], round[under]))));
    }
}

fn table(heading: &str, there: &[Contestant], rounds: &[Vec<Figures>], plan: &mut Plan) {
    println!(
        "{:<36} {:>26} {:>8} {:>8} {:>14} {:>8} {:>8}",
        "", "events/s median [range]", "p50 ms", "p99 ms", "CPU us/event", "server", "sender"
    );
    let mut bars = Vec::new();
    for (n, contestant) in there.iter().enumerate() {
        let of = |what: fn(&Figures) -> f64| Spread::of(rounds.iter().map(|round| what(&round[n])));
        let rate = of(|one| one.per_second);
        println!(
            "{:<36} {:>26} {:>8.2} {:>8.2} {:>14.1} {:>8.1} {:>8.1}",
            contestant.title(),
            rate.to_string(),
            of(|one| one.p50_ms).median,
            of(|one| one.p99_ms).median,
            of(|one| one.cpu_us).median,
            of(|one| one.server_us).median,
            of(|one| one.generator_us).median,
        );
        bars.push(Bar {
            label: contestant.title().to_owned(),
            value: rate.median,
            range: (rate.min, rate.max),
        });
        plan.keep(serde_json::json!({
            "what": heading, "contestant": contestant, "per_second": rate, "p50_ms": of(|one| one.p50_ms),
            "p99_ms": of(|one| one.p99_ms), "cpu_us": of(|one| one.cpu_us), "server_us": of(|one| one.server_us),
            "generator_us": of(|one| one.generator_us),
        }));
    }
    plan.draw(Chart::bars(&format!("{heading}: events a second"), bars));
}
