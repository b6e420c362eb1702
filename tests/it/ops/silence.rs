//! `sender-silent` against simulated senders: healthy ones cause no critical alert, and an outage is reported.
//!
//! Everything is simulated but the usual gap, which the program computes ([`Rhythm`]). The expressions of the rule are evaluated
//! here, every five minutes, and compared with the text of the rule.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "seconds of some months, and counts of them"
)]

use hooklatch_store::Rhythm;

use super::texts::rules;

const HOUR_S: i64 = 3_600;
const DAY_S: i64 = 24 * HOUR_S;
const WEEK_S: i64 = 7 * DAY_S;
const DAYS_N: i64 = 129;
const STEP_S: i64 = 300;
const QUARTER_S: i64 = 900;

/// The numbers of one severity of the rule.
struct Limits {
    severity: &'static str,
    /// Usual gaps, and seconds at least.
    gaps: (i32, i32),
    window_h: i64,
    /// Quarters of an hour with events within the window, a week and two weeks ago.
    quarters_n: usize,
    /// Whether the second part requires more than a usual gap as well.
    is_beyond_usual: bool,
    for_s: i64,
}

const WARNING: Limits = Limits {
    severity: "warning",
    gaps: (2, 1_800),
    window_h: 6,
    quarters_n: 8,
    is_beyond_usual: false,
    for_s: 300,
};
const CRITICAL: Limits = Limits {
    severity: "critical",
    gaps: (5, 7_200),
    window_h: 12,
    quarters_n: 24,
    is_beyond_usual: true,
    for_s: 900,
};

impl Limits {
    fn expr(&self) -> String {
        let newest = "max without (instance, pod) (hooklatch_last_accepted_timestamp_seconds)";
        let usual = "max without (instance, pod) (hooklatch_usual_gap_seconds)";
        let Self { gaps: (gaps_n, gaps_s_min), window_h, quarters_n, .. } = self;
        let window_s = window_h * HOUR_S;
        let floor = if self.is_beyond_usual {
            format!("clamp_min({usual}, {window_s})")
        } else {
            window_s.to_string()
        };
        let as_often =
            |offset: &str| format!("and changes({newest}[{window_h}h:15m] offset {offset}) >= {quarters_n}");
        format!(
            "time() - {newest} > clamp_min({gaps_n} * {usual}, {gaps_s_min}) or ( time() - {newest} > {floor} {} {} )",
            as_often("1w"),
            as_often("2w")
        )
    }

    fn is_true(&self, now_s: i64, newest_s: i64, usual_s: Option<f64>, quarters: &[usize]) -> bool {
        let silent_s = (now_s - newest_s) as f64;
        let is_beyond = |gaps: i32, s_min: f64| {
            usual_s.is_some_and(|gap_s| silent_s > (f64::from(gaps) * gap_s).max(s_min))
        };
        let window_s = self.window_h * HOUR_S;
        let is_long =
            if self.is_beyond_usual { is_beyond(1, window_s as f64) } else { silent_s > window_s as f64 };
        // `quarters[n]`: how many of the first quarters of an hour had events.
        let n_at = |at_s: i64| usize::try_from(at_s).map_or(0, |at_s| quarters[at_s / QUARTER_S as usize]);
        let as_often = |ago_s: i64| {
            n_at(now_s - ago_s) - n_at(now_s - ago_s - window_s + QUARTER_S - 1) >= self.quarters_n
        };
        is_beyond(self.gaps.0, f64::from(self.gaps.1))
            || (is_long && as_often(WEEK_S) && as_often(2 * WEEK_S))
    }

    /// When an alert begins to fire.
    fn fires_at(&self, events_s: &[i64]) -> Vec<i64> {
        let mut quarters = vec![0; (DAYS_N * DAY_S / QUARTER_S) as usize + 1];
        // An event changes what is seen at the end of its quarter.
        for at_s in events_s {
            quarters[(at_s + QUARTER_S - 1) as usize / QUARTER_S as usize] = 1;
        }
        (1..quarters.len()).for_each(|n| quarters[n] += quarters[n - 1]);
        let (mut rhythm, mut usual_s, mut rest) = (Rhythm::begun(events_s[0] * 1_000), None, &events_s[1..]);
        let (mut fires, mut true_since_s) = (Vec::new(), None::<i64>);
        for now_s in (events_s[0]..DAYS_N * DAY_S).step_by(STEP_S as usize) {
            let (seen, later) = rest.split_at(rest.partition_point(|at_s| *at_s <= now_s));
            rest = later;
            for at_s in seen {
                rhythm.add(at_s * 1_000, at_s * 1_000);
            }
            if !seen.is_empty() {
                usual_s = rhythm.usual_gap_s();
            }
            if !self.is_true(now_s, rhythm.last_accepted_at_ms / 1_000, usual_s, &quarters) {
                true_since_s = None;
            } else if now_s - *true_since_s.get_or_insert(now_s) == self.for_s {
                fires.push(now_s);
            }
        }
        fires
    }
}

/// A sender: its events on a day on which it sends, the hours of a day and the days of a week on which it does.
struct Sender(f64, std::ops::Range<i64>, std::ops::Range<i64>);

impl Sender {
    /// Events at random times (a Poisson process while it sends).
    fn events_s(&self, seed: u64) -> Vec<i64> {
        let Self(per_day, hours, days) = self;
        let mut random = fastrand::Rng::with_seed(seed);
        let mean_s = ((hours.end - hours.start) * HOUR_S) as f64 / per_day;
        let mut at_s = 0.0;
        let mut next = || {
            at_s -= mean_s * (1.0 - random.f64()).ln();
            at_s as i64
        };
        let sent = std::iter::from_fn(|| Some(next()).filter(|at_s| *at_s < DAYS_N * DAY_S));
        sent.filter(|at_s| hours.contains(&(at_s % DAY_S / HOUR_S)) && days.contains(&(at_s / DAY_S % 7)))
            .collect()
    }
}

const SEEDS: std::ops::Range<u64> = 0..8;

#[test]
fn the_rule_has_the_numbers_that_are_simulated() {
    for limits in [WARNING, CRITICAL] {
        let is_it = |rule: &&serde_json::Value| {
            rule["alert"] == "HooklatchSenderSilent" && rule["severity"] == limits.severity
        };
        let rule = rules().iter().find(is_it).unwrap();
        let words = rule["expr"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words, limits.expr());
        assert_eq!(rule["for"], format!("{}m", limits.for_s / 60));
    }
}

#[test]
fn healthy_senders_cause_a_critical_alert_less_than_every_second_year() {
    let always = |per_day| Sender(per_day, 0..24, 0..7);
    for sender in [
        always(3.0),
        always(8.0),
        always(24.0),
        always(50.0),
        Sender(10.0, 9..18, 0..5),
        Sender(50.0, 6..22, 0..7),
        Sender(1_000.0, 6..22, 0..7),
    ] {
        let runs = SEEDS.map(|seed| sender.events_s(seed)).collect::<Vec<_>>();
        let per_month = |limits: &Limits| {
            let fires_n: usize = runs.iter().map(|events_s| limits.fires_at(events_s).len()).sum();
            fires_n as f64 / (runs.len() as i64 * DAYS_N) as f64 * 30.0
        };
        let (warning, critical) = (per_month(&WARNING), per_month(&CRITICAL));
        let Sender(per_day, hours, days) = &sender;
        eprintln!(
            "{per_day}/day, hours {hours:?}, days {days:?}: {warning:.2} warnings, {critical:.2} critical a month"
        );
        assert!(critical <= 0.05 && warning <= 0.3, "{per_day}/day {hours:?} {days:?}: {warning} {critical}");
    }
}

#[test]
fn an_outage_of_a_sender_with_fifty_events_a_day_is_reported_within_twelve_hours() {
    for (hours, hour_of_outage) in [(0..24, 0), (0..24, 9), (0..24, 17), (6..22, 7), (6..22, 10)] {
        for seed in SEEDS {
            let outage_s = 98 * DAY_S + hour_of_outage * HOUR_S;
            let mut events_s = Sender(50.0, hours.clone(), 0..7).events_s(seed);
            events_s.retain(|at_s| *at_s < outage_s);
            let fires = WARNING.fires_at(&events_s).into_iter().find(|at_s| *at_s >= outage_s);
            let after_h = (fires.unwrap_or(i64::MAX) - outage_s) / HOUR_S;
            assert!(after_h < 12, "{hours:?}, outage at {hour_of_outage}: reported after {after_h} hours");
        }
    }
}
