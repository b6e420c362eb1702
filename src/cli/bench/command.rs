//! `bench`: a load on a server of its own, or on a test server, and what it took.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::super::shared::{Usage, complain, say, typed_secret};
use super::super::sign::{Signer, signer};
use super::super::test_server::needs_test_server;
use super::postmaster::postmaster;
use super::server::BenchServer;
use crate::bench::{
    Load, LoadPace, LoadTarget, Measured, Mix, Report, SignedMaker, Until, WatchedProcesses, listener_of, run,
};
use hooklatch_core::figures::grouped;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use hooklatch_receive::provider::Provider;
use hooklatch_verify::spec::Scheme;

/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

#[derive(Args)]
pub(crate) struct BenchArgs {
    /// The provider kind, or a provider of the configuration.
    #[arg(default_value = "stripe")]
    kind: String,
    /// The sample's event type; the kind's first one by default.
    event_type: Option<String>,
    /// Load a running server that says that it is a test server (`test = true` in [server], or `serve --dev`): the whole
    /// URL, or the server alone. Without it the bench starts one.
    #[arg(long)]
    url: Option<String>,
    /// With --url: sign with this secret instead of the configured one. `-` reads a line of standard input: what stands on a
    /// command line, everybody on the machine can read.
    #[arg(long, requires = "url")]
    secret: Option<String>,
    /// The database of the server that is started: SQLite in a temporary folder by default, or an empty PostgreSQL
    /// database. The server has the published secrets, and a destination that never answers.
    #[arg(long, value_name = "POSTGRES_URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "url")]
    start: Option<String>,
    /// Number of connections, each with one request under way.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=10_000), default_value_t = 64)]
    connections: u16,
    /// Send this many requests a second whatever the server does, instead of each connection's next after its last
    /// answer. Latency then counts from when a request was due.
    #[arg(long, value_name = "PER_SECOND", value_parser = a_rate)]
    rate: Option<f64>,
    /// Length of the load after the warm-up. Seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    duration: f64,
    /// Number of requests, instead of a length.
    #[arg(long, conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    count: Option<u64>,
    /// Load before what counts. Seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    warm_up: f64,
    /// Share of requests that are copies of earlier ones. Percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    duplicates: f64,
    /// Share of requests that are changed after they were signed. Percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    forgeries: f64,
    /// Lengths of bodies, each drawn equally often; as long as the sample by default. Bytes.
    #[arg(long, value_name = "BYTES,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    body_bytes: Vec<u32>,
    /// Longest time that an answer is waited for. Seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    timeout: f64,
    /// The server's process, for its CPU time; by default the one that listens there, where that can be seen.
    #[arg(long, requires = "url")]
    pid: Option<u32>,
    /// Load a server on another machine; has to be the host of its URL.
    #[arg(long, value_name = "HOST", requires = "url")]
    yes_this_host: Option<String>,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
    /// Write the figures as a picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn bench(args: &BenchArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    if args.duplicates + args.forgeries > 100.0 {
        return Err(Usage("--duplicates and --forgeries are more than 100 together".to_owned()).into());
    }
    // One thread sends, so that the rest of the machine is the server's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let server = if args.url.is_some() {
        None
    } else {
        let database = args.start.as_deref().unwrap_or_default();
        Some(runtime.block_on(BenchServer::start(&args.kind, database, kinds))?)
    };
    let signer = match &server {
        Some(server) => server.signer(kinds)?,
        None => signer(&args.kind, typed_secret(args.secret.as_deref())?.as_deref(), file, kinds)?,
    };
    check_forgeries(args, signer.kind)?;
    let url = signer.url_or(args.url.as_deref());
    let target = LoadTarget::find(&url, args.yes_this_host.as_deref())?;
    if server.is_none() {
        let client = hooklatch_outbox::http_client().context("could not make an HTTP client")?;
        runtime.block_on(needs_test_server(&client, &url))?;
    }
    let watched = server.as_ref().map_or_else(|| watched(args, &target, file, kinds), BenchServer::watched);
    let load = load(args, &target, watched);
    let measured = runtime.block_on(measure(args, signer, &target, &load))?;
    drop(server);
    let report = Report::new(&target.url, &load, &measured);
    if let Some(path) = &args.svg {
        std::fs::write(path, report.svg())
            .with_context(|| format!("could not write `{}`", path.display()))?;
    }
    if args.json {
        say(serde_json::to_string(&report)?);
    } else {
        say(&report);
    }
    Ok(verdict(&measured))
}

async fn measure(
    args: &BenchArgs,
    signer: Signer<'_>,
    target: &LoadTarget,
    load: &Load,
) -> anyhow::Result<Measured> {
    let (event_type, sample) = signer.sample(args.event_type.as_deref(), 1)?;
    let sizes: Vec<usize> = args.body_bytes.iter().map(|bytes| *bytes as usize).collect();
    let maker = SignedMaker::new(signer.provider.clone(), target, event_type, sample, &sizes)
        .map_err(|why| Usage(format!("--body-bytes: {why}")))?;
    let (copies, forgeries) = (args.duplicates / 100.0, args.forgeries / 100.0);
    let made_n = Arc::new(AtomicU64::new(0));
    let is_watched = !args.json && std::io::stderr().is_terminal();
    tokio::select! {
        measured = run(load, |_| Mix::new(Box::new(maker.clone()), copies, forgeries).counted_in(&made_n)) => Ok(measured?),
        () = show_progress(load, &made_n), if is_watched => anyhow::bail!("progress ended before the load"),
        // A server of its own and its folder are to go away with us.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted");
        }
    }
}

/// Prints a line each second, for as long as it is polled.
async fn show_progress(load: &Load, made_n: &AtomicU64) {
    let started = tokio::time::Instant::now();
    let mut every = tokio::time::interval_at(started + PROGRESS_EVERY, PROGRESS_EVERY);
    loop {
        let now = every.tick().await;
        complain(progress(load, now - started, made_n.load(Ordering::Relaxed)));
    }
}

/// `3 s of 12 s, 12,345 requests sent`.
fn progress(load: &Load, elapsed: Duration, made_n: u64) -> String {
    let (elapsed_s, sent) = (elapsed.as_secs(), grouped(made_n));
    match load.until {
        Until::Elapsed(window) => {
            let all_s = (load.warm_up + window).as_secs_f64().ceil();
            format!("{elapsed_s} s of {all_s} s, {sent} requests sent")
        }
        Until::Count(all_n) => {
            let warm_up = if elapsed < load.warm_up { " (warm-up)" } else { "" };
            format!("{elapsed_s} s{warm_up}, {sent} requests sent; {} are measured", grouped(all_n))
        }
    }
}

fn load(args: &BenchArgs, target: &LoadTarget, watched: WatchedProcesses) -> Load {
    Load {
        addr: target.addr,
        connections_n: usize::from(args.connections),
        pace: args.rate.map_or(LoadPace::Closed, LoadPace::Open),
        warm_up: Duration::from_secs_f64(args.warm_up),
        until: match args.count {
            Some(n) => Until::Count(n),
            None => Until::Elapsed(Duration::from_secs_f64(args.duration)),
        },
        timeout: Duration::from_secs_f64(args.timeout),
        watched,
    }
}

/// Returns whose CPU time counts: who listens at the target, and the local PostgreSQL of the configuration, if it has
/// one.
fn watched(args: &BenchArgs, target: &LoadTarget, file: Option<&Path>, kinds: &Kinds) -> WatchedProcesses {
    let server = args.pid.or_else(|| listener_of(target.addr.port()).filter(|_| target.is_here()));
    let url = load_for_tools(&Settings::of_process(file), kinds).ok().map(|config| config.database.url);
    WatchedProcesses { server, database: url.and_then(|url| postmaster(&url)) }
}

/// Refuses `--forgeries` for a kind that does not sign its bodies: a changed one would be believed.
fn check_forgeries(args: &BenchArgs, kind: &Provider) -> anyhow::Result<()> {
    let spec = kind.spec().map_err(Clone::clone)?;
    let is_body_signed = !matches!(spec.signature.scheme, Scheme::Unsigned | Scheme::Token | Scheme::Basic);
    if args.forgeries > 0.0 && !is_body_signed {
        let why = format!(
            "--forgeries: kind `{}` does not sign its bodies, so a changed one is no forgery",
            args.kind
        );
        return Err(Usage(why).into());
    }
    Ok(())
}

/// Fine when something was accepted, no forgery was believed and every request was answered.
fn verdict(measured: &Measured) -> ExitCode {
    let mut is_fine = true;
    let mut fault = |what: String| {
        complain(format!("hooklatch: {what}"));
        is_fine = false;
    };
    if measured.forgeries_believed_n > 0 {
        fault(format!("{} forgeries were answered with 2xx", measured.forgeries_believed_n));
    }
    if measured.errors_n > 0 {
        fault(format!("{} requests were not answered, or with 5xx", measured.errors_n));
    }
    if measured.accepted_n == 0 {
        fault("no event was accepted".to_owned());
    }
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "is not a number".to_owned())?;
    let (least, most) = (range.start(), range.end());
    range.contains(&number).then_some(number).ok_or_else(|| format!("is not from {least} to {most}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    number(text, 0.0..=86_400.0)
}

fn percent(text: &str) -> Result<f64, String> {
    number(text, 0.0..=100.0)
}

fn a_rate(text: &str) -> Result<f64, String> {
    number(text, 0.1..=1_000_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_says_how_far_a_load_is() {
        let load = |until| Load {
            addr: ([127, 0, 0, 1], 1).into(),
            connections_n: 1,
            pace: LoadPace::Closed,
            warm_up: Duration::from_secs(2),
            until,
            timeout: Duration::from_secs(1),
            watched: WatchedProcesses { server: None, database: None },
        };
        let timed = load(Until::Elapsed(Duration::from_secs(10)));
        assert_eq!(
            progress(&timed, Duration::from_millis(3_001), 12_345),
            "3 s of 12 s, 12,345 requests sent"
        );
        let counted = load(Until::Count(100_000));
        assert_eq!(
            progress(&counted, Duration::from_secs(1), 7),
            "1 s (warm-up), 7 requests sent; 100,000 are measured"
        );
        assert_eq!(
            progress(&counted, Duration::from_secs(5), 51_000),
            "5 s, 51,000 requests sent; 100,000 are measured"
        );
    }

    #[test]
    fn figures_out_of_their_range_are_refused_with_the_range() {
        assert_eq!(percent("100"), Ok(100.0));
        assert_eq!(seconds("0.25"), Ok(0.25));
        assert_eq!(percent("101").unwrap_err(), "is not from 0 to 100");
        assert_eq!(seconds("-1").unwrap_err(), "is not from 0 to 86400");
        assert_eq!(a_rate("0").unwrap_err(), "is not from 0.1 to 1000000");
        assert_eq!(a_rate("many").unwrap_err(), "is not a number");
        assert!(percent("NaN").is_err() && seconds("inf").is_err());
    }
}
