//! `hooklatch-bench`: loads a server that it starts, or a test server, and reports how fast it is.
//!
//! `server.rs` starts a server for one load. The load itself and its figures are the library of this crate.

mod server;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;

use hooklatch_bench::{
    Load, LoadPace, LoadTarget, Measured, Mix, Report, SignedMaker, Until, WatchedProcesses, listener_of, run,
};
use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_core::plain;
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::{Scheme, Spec};

use server::OwnServer;

/// Loads a server that it starts, or a test server, and reports how fast it is.
#[derive(Parser)]
#[command(name = "hooklatch-bench")]
struct BenchArgs {
    /// A built-in provider kind.
    #[arg(default_value = "stripe")]
    kind: String,
    /// The sample's event type; the kind's first one by default.
    event_type: Option<String>,
    /// Load a running test server (`test = true` in [server], or `serve --dev`): the whole URL, or the server alone.
    /// Without it the bench starts one.
    #[arg(long)]
    url: Option<String>,
    /// With --url: sign with this secret instead of the published one of `serve --dev`.
    #[arg(long, requires = "url")]
    secret: Option<String>,
    /// The database of the server that is started: SQLite in a temporary folder by default, or an empty database at
    /// this URL, which stays. The server has the published secrets, and a destination that never answers.
    #[arg(long, value_name = "DATABASE_URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "url")]
    start: Option<String>,
    /// The program of the server that is started; `hooklatch` beside this program by default.
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    binary: Option<PathBuf>,
    /// Number of connections, each with one request under way.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=10_000), default_value_t = 64)]
    connections: u16,
    /// Send this many requests a second whatever the server does, instead of each connection's next after its last
    /// answer. Latency then counts from when a request was due.
    #[arg(long, value_name = "PER_SECOND", value_parser = rate)]
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
    /// Longest time to wait for an answer. Seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = seconds)]
    timeout: f64,
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

fn main() -> ExitCode {
    bench(&BenchArgs::parse()).unwrap_or_else(|error| {
        complain(format!("hooklatch-bench: {error:#}"));
        ExitCode::FAILURE
    })
}

fn bench(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(
        args.duplicates + args.forgeries <= 100.0,
        "--duplicates and --forgeries are more than 100 together"
    );
    let kinds = builtin();
    let kind = kinds.iter().find(|kind| kind.kind() == args.kind);
    let kind = kind.with_context(|| format!("no built-in kind is called `{}`", args.kind))?;
    let provider = sender(kind, args.secret.as_deref())?;
    check_forgeries(args, provider.spec())?;
    let server = match &args.url {
        Some(_) => None,
        None => Some(OwnServer::start(&program(args)?, &args.kind, args.start.as_deref())?),
    };
    let url = match (&args.url, &server) {
        (Some(url), _) => with_path(url, &args.kind),
        (None, Some(server)) => server.url(),
        (None, None) => anyhow::bail!("there is no server to load"),
    };
    let target = LoadTarget::find(&url, args.yes_this_host.as_deref())?;
    target.check_test_server()?;
    let watched = match &server {
        Some(server) => server.watched(),
        None => WatchedProcesses {
            server: listener_of(target.addr.port()).filter(|_| target.is_here()),
            database: None,
        },
    };
    let load = load(args, &target, watched);
    // One thread sends, so that the rest of the machine is the server's.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measured = runtime.block_on(measure(args, kind, provider, &target, &load))?;
    drop(server);
    let report = Report::new(&target.url, &load, &measured);
    if let Some(path) = &args.svg {
        std::fs::write(path, report.svg())
            .with_context(|| format!("could not write `{}`", path.display()))?;
    }
    let text = if args.json { serde_json::to_string(&report)? } else { report.to_string() };
    writeln!(std::io::stdout(), "{}", plain::text(&text))?;
    Ok(verdict(&measured))
}

/// Writes to stderr, such that what the server answered does not control the terminal.
fn complain(text: impl AsRef<str>) {
    drop(writeln!(std::io::stderr(), "{}", plain::text(text.as_ref())));
}

/// The server's program: `--binary`, or `hooklatch` in the folder of this program.
fn program(args: &BenchArgs) -> anyhow::Result<PathBuf> {
    let path = match &args.binary {
        Some(path) => std::path::absolute(path)?,
        None => std::env::current_exe().context("could not find this program")?.with_file_name("hooklatch"),
    };
    let is_there = Path::is_file(&path);
    anyhow::ensure!(
        is_there,
        "there is no `{}`: build it with `cargo build` and this program's profile, or name another with --binary",
        path.display()
    );
    Ok(path)
}

/// The kind as a sender that signs: with `secret`, or as `serve --dev` expects it.
fn sender(kind: &Provider, secret: Option<&str>) -> anyhow::Result<ActiveProvider> {
    let sender = if let Some(secret) = secret {
        kind.judge_with(&[Secret::new(secret)], &KindSettings::default())
    } else {
        anyhow::ensure!(
            !kind.spec().is_ok_and(Spec::needs_generated_keys),
            "kind `{}` signs with keys that each installation generates, which the bench does not have",
            kind.kind()
        );
        kind.dev(&DevKeys::default())
    };
    sender.map_err(anyhow::Error::msg)
}

/// The URL of the provider: as given, or completed by the path of `kind` when it names a server alone.
fn with_path(given: &str, kind: &str) -> String {
    let server = given.trim_end_matches('/');
    let is_server_alone = server.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?']));
    if is_server_alone { format!("{server}/webhooks/{kind}") } else { given.to_owned() }
}

async fn measure(
    args: &BenchArgs,
    kind: &Provider,
    sender: ActiveProvider,
    target: &LoadTarget,
    load: &Load,
) -> anyhow::Result<Measured> {
    let samples = kind.sample_list();
    let is_wanted = |listed: &str| args.event_type.as_deref().is_none_or(|wanted| wanted == listed);
    let found = samples.iter().find(|(listed, _)| is_wanted(listed));
    let (event_type, sample) = found.with_context(|| {
        let wanted = args.event_type.as_deref().unwrap_or("any event type");
        format!("kind `{0}` has no sample of {wanted}: `hooklatch providers {0}` lists them", args.kind)
    })?;
    let sizes: Vec<usize> = args.body_bytes.iter().map(|bytes| *bytes as usize).collect();
    let maker = SignedMaker::new(sender, target, event_type, sample, &sizes)
        .map_err(|why| anyhow::anyhow!("--body-bytes: {why}"))?;
    let (copies, forgeries) = (args.duplicates / 100.0, args.forgeries / 100.0);
    tokio::select! {
        measured = run(load, |_| Mix::new(Box::new(maker.clone()), copies, forgeries)) => Ok(measured?),
        // A server that was started for the load ends with it, and so does its folder.
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            anyhow::bail!("interrupted");
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

/// Refuses `--forgeries` for a kind that does not sign its bodies: a server would accept a changed one.
fn check_forgeries(args: &BenchArgs, spec: &Spec) -> anyhow::Result<()> {
    let is_body_signed = !matches!(spec.signature.scheme, Scheme::Unsigned | Scheme::Token | Scheme::Basic);
    anyhow::ensure!(
        args.forgeries == 0.0 || is_body_signed,
        "--forgeries: kind `{}` does not sign its bodies, so a changed one is no forgery",
        args.kind
    );
    Ok(())
}

/// Succeeds when something was accepted, no forgery was accepted and every request was answered.
fn verdict(measured: &Measured) -> ExitCode {
    let mut is_fine = true;
    let mut fault = |what: String| {
        complain(format!("hooklatch-bench: {what}"));
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

fn rate(text: &str) -> Result<f64, String> {
    number(text, 0.1..=1_000_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_alone_is_completed_by_the_path_of_the_kind() {
        #[track_caller]
        fn check(given: &str, want: &str) {
            assert_eq!(with_path(given, "stripe"), want);
        }
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080/webhooks/stripe");
        check("http://127.0.0.1:8080/", "http://127.0.0.1:8080/webhooks/stripe");
        check("http://127.0.0.1:8080/in/webhooks/x", "http://127.0.0.1:8080/in/webhooks/x");
        check("http://b.test?x=1", "http://b.test?x=1");
        check("b.test", "b.test");
    }

    #[test]
    fn figures_out_of_their_range_are_refused_with_the_range() {
        assert_eq!(percent("100"), Ok(100.0));
        assert_eq!(seconds("0.25"), Ok(0.25));
        assert_eq!(percent("101").unwrap_err(), "is not from 0 to 100");
        assert_eq!(seconds("-1").unwrap_err(), "is not from 0 to 86400");
        assert_eq!(rate("0").unwrap_err(), "is not from 0.1 to 1000000");
        assert_eq!(rate("many").unwrap_err(), "is not a number");
        assert!(percent("NaN").is_err() && seconds("inf").is_err());
    }
}
