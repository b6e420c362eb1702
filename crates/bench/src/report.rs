//! The result of a load, for programs, for people and as a picture.

use std::collections::BTreeMap;
use std::fmt;

use super::chart::{Bar, Chart, ChartLine, svg};
use super::cpu::CpuUs;
use super::load::{Load, LoadPace};
use super::tally::{Measured, SecondFigures};

/// The quantiles of the picture's curve, each a step towards the slowest.
const QUANTILES: [(f64, &str); 9] = [
    (0.0, "0"),
    (0.5, "50"),
    (0.75, "75"),
    (0.9, "90"),
    (0.95, "95"),
    (0.99, "99"),
    (0.995, "99.5"),
    (0.999, "99.9"),
    (1.0, "max"),
];

/// One load and its figures. Serialized, it is what `hooklatch-bench --json` prints.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Report {
    /// URL that the requests went to.
    pub url: String,
    /// Facts about how they were sent.
    pub load: LoadFacts,
    /// Length of the window. Seconds.
    pub window_s: f64,
    /// Requests of the window; the sum of `answers`.
    pub requests_n: u64,
    /// Number of answers of each sort, and of what arrived instead of one.
    pub answers: BTreeMap<String, u64>,
    /// Number of events that were admitted.
    pub accepted_n: u64,
    /// Events admitted a second.
    pub accepted_per_s: f64,
    /// Forgeries that were answered with 2xx: any is a fault.
    pub forgeries_believed_n: u64,
    /// Requests that were not answered, or with 5xx.
    pub errors_n: u64,
    /// Requests of an open loop that left more than a millisecond after they were due.
    pub late_n: u64,
    /// Latency of all requests but forgeries, counted from the time at which each was due. Milliseconds.
    pub latency_ms: Latency,
    /// CPU time, all of it divided by `requests_n`. Microseconds; null where it is not known.
    pub cpu_us_per_request: Cpu,
    /// Figures of each second of the window.
    pub seconds: Vec<SecondFigures>,
    #[serde(skip)]
    curve: Vec<(f64, f64)>,
}

/// Facts about how requests were sent.
#[derive(Debug, Clone, serde::Serialize)]
pub struct LoadFacts {
    /// Kind of loop: `closed` or `open`.
    pub r#loop: &'static str,
    /// Requests a second of an open loop.
    pub rate_per_s: Option<f64>,
    /// Number of connections that there were.
    pub connections_n: usize,
    /// Load before the window. Seconds.
    pub warm_up_s: f64,
}

/// Latency of all requests but forgeries. Milliseconds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Latency {
    /// Median latency, in milliseconds.
    pub p50: f64,
    /// 90th percentile, in milliseconds.
    pub p90: f64,
    /// 99th percentile, in milliseconds.
    pub p99: f64,
    /// 99.9th percentile, in milliseconds.
    pub p99_9: f64,
    /// Longest latency, in milliseconds.
    pub max: f64,
}

/// CPU time for a request. Microseconds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Cpu {
    /// CPU time of the receiver; with SQLite, of its database as well. Microseconds.
    pub server: Option<f64>,
    /// CPU time of PostgreSQL's processes. Microseconds.
    pub database: Option<f64>,
    /// CPU time of this process, which sends. Microseconds.
    pub generator: Option<f64>,
}

impl Report {
    /// Makes the report of what was measured at `url`.
    pub fn new(url: &str, load: &Load, measured: &Measured) -> Self {
        let rate_per_s = match load.pace {
            LoadPace::Closed => None,
            LoadPace::Open(rate) => Some(rate),
        };
        let ms = |quantile| measured.latency_ms(quantile);
        let CpuUs { server, database, generator } = measured.cpu;
        let each = |used_us| measured.each(used_us);
        Self {
            url: url.to_owned(),
            load: LoadFacts {
                r#loop: if rate_per_s.is_some() { "open" } else { "closed" },
                rate_per_s,
                connections_n: load.connections_n,
                warm_up_s: load.warm_up.as_secs_f64(),
            },
            window_s: measured.window.as_secs_f64(),
            requests_n: measured.requests_n(),
            answers: measured.answers.clone(),
            accepted_n: measured.accepted_n,
            accepted_per_s: measured.accepted_per_s(),
            forgeries_believed_n: measured.forgeries_believed_n,
            errors_n: measured.errors_n,
            late_n: measured.late_n,
            latency_ms: Latency { p50: ms(0.5), p90: ms(0.9), p99: ms(0.99), p99_9: ms(0.999), max: ms(1.0) },
            cpu_us_per_request: Cpu {
                server: each(server),
                database: each(database),
                generator: each(generator),
            },
            seconds: measured.seconds.clone(),
            curve: QUANTILES.iter().map(|(quantile, _)| *quantile).map(|q| (q, ms(q))).collect(),
        }
    }

    /// Draws the figures as one self-contained picture.
    pub fn svg(&self) -> String {
        let over_time = |of: fn(&SecondFigures) -> f64| -> Vec<(f64, f64)> {
            (1_u32..).map(f64::from).zip(self.seconds.iter().map(of)).collect()
        };
        #[expect(clippy::cast_precision_loss, reason = "a picture")]
        let rate = over_time(|second| second.answers_n as f64);
        let seconds = |points: &[(f64, f64)]| -> Vec<(f64, String)> {
            let step = points.len().div_ceil(12).max(1);
            points.iter().step_by(step).map(|(second, _)| (*second, second.to_string())).collect()
        };
        let ticks =
            (0_u32..).map(f64::from).zip(QUANTILES).map(|(n, (_, word))| (n, word.to_owned())).collect();
        let curve = (0_u32..).map(f64::from).zip(&self.curve).map(|(n, (_, ms))| (n, *ms)).collect();
        let cpu = &self.cpu_us_per_request;
        let named = [("server", cpu.server), ("database", cpu.database), ("generator", cpu.generator)];
        let bars = named.iter().filter_map(|(label, us)| Some(Bar::exact(label, (*us)?))).collect();
        let line = |label: &str, points: Vec<(f64, f64)>| ChartLine { label: label.to_owned(), points };
        let charts = [
            Chart::lines(
                "Answers a second, second by second",
                seconds(&rate),
                vec![line("answers/s", rate.clone())],
            ),
            Chart::lines(
                "Latency, second by second, ms",
                seconds(&rate),
                vec![
                    line("p99", over_time(|second| second.p99_ms)),
                    line("p50", over_time(|second| second.p50_ms)),
                ],
            ),
            Chart::lines("Latency by percentile, ms", ticks, vec![line("latency", curve)]).logarithmic(),
            Chart::bars("CPU time for a request, µs", bars),
        ];
        svg(
            &format!("{:.0} accepted a second, p99 {:.2} ms", self.accepted_per_s, self.latency_ms.p99),
            &self.how(),
            &charts,
        )
    }

    fn how(&self) -> String {
        let LoadFacts { rate_per_s, connections_n, warm_up_s, .. } = &self.load;
        let pace = match rate_per_s {
            Some(rate) => format!("open loop, {rate} requests/s over up to {connections_n} connections"),
            None => format!("closed loop, {connections_n} connections"),
        };
        format!("{}: {pace}, {:.1} s after {warm_up_s:.1} s of warm-up", self.url, self.window_s)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.how())?;
        writeln!(
            f,
            "accepted   {:.0}/s ({} of {} requests)",
            self.accepted_per_s, self.accepted_n, self.requests_n
        )?;
        for (word, n) in &self.answers {
            writeln!(f, "{n:>10} {word}")?;
        }
        let Latency { p50, p90, p99, p99_9, max } = self.latency_ms;
        writeln!(
            f,
            "latency    p50 {p50:.2} ms, p90 {p90:.2}, p99 {p99:.2}, p99.9 {p99_9:.2}, max {max:.2}"
        )?;
        if self.load.rate_per_s.is_some() {
            writeln!(f, "sent late  {} (their latency counts from when they were due)", self.late_n)?;
        }
        let us = |us: Option<f64>| us.map_or_else(|| "not known".to_owned(), |us| format!("{us:.1} µs"));
        let Cpu { server, database, generator } = self.cpu_us_per_request;
        write!(
            f,
            "CPU        server {}, database {}, generator {} a request",
            us(server),
            us(database),
            us(generator)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hdrhistogram::Histogram;

    use super::super::cpu::WatchedProcesses;
    use super::super::load::Until;
    use super::*;

    fn load(pace: LoadPace) -> Load {
        Load {
            addr: ([127, 0, 0, 1], 80).into(),
            connections_n: 4,
            pace,
            warm_up: Duration::from_secs(2),
            until: Until::Count(4),
            timeout: Duration::from_secs(1),
            watched: WatchedProcesses::default(),
        }
    }

    fn measured() -> Measured {
        let mut latency = Histogram::new_with_bounds(1, 3_600_000_000, 3).expect("bounds");
        for us in [1_000, 2_000, 3_000, 40_000] {
            latency.saturating_record(us);
        }
        Measured {
            window: Duration::from_secs(2),
            answers: [("200 accepted".to_owned(), 3), ("503".to_owned(), 1)].into(),
            accepted_n: 3,
            forgeries_believed_n: 0,
            errors_n: 1,
            latency,
            late_n: 1,
            seconds: vec![SecondFigures { answers_n: 2, p50_ms: 1.5, p99_ms: 2.0 }; 2],
            cpu: CpuUs { server: Some(400), database: None, generator: Some(40) },
        }
    }

    #[test]
    fn people_and_programs_read_the_same_figures() {
        let report = Report::new("http://127.0.0.1/webhooks/stripe", &load(LoadPace::Open(2.5)), &measured());
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!((&json["requests_n"], &json["accepted_per_s"]), (&4.into(), &1.5.into()));
        assert_eq!((&json["load"]["loop"], &json["load"]["rate_per_s"]), (&"open".into(), &2.5.into()));
        assert_eq!(json["cpu_us_per_request"]["server"], 100.0);
        assert_eq!(json["cpu_us_per_request"]["database"], serde_json::Value::Null, "not known is not 0");
        let text = report.to_string();
        for line in [
            "open loop, 2.5 requests/s over up to 4 connections, 2.0 s after 2.0 s of warm-up",
            "accepted   2/s (3 of 4 requests)",
            "         3 200 accepted",
            "latency    p50 2.00 ms",
            "sent late  1 ",
            "CPU        server 100.0 µs, database not known, generator 10.0 µs a request",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let closed = Report::new("http://127.0.0.1/", &load(LoadPace::Closed), &measured());
        assert!(!closed.to_string().contains("sent late") && closed.load.rate_per_s.is_none());
        let picture = report.svg();
        assert!(picture.contains("generator") && !picture.contains("database") && picture.contains("99.9"));
    }
}
