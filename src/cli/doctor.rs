//! `doctor`: queries the running server, sends probes through `server.public_url` as a sender would, and prints the
//! findings; without a server it checks configuration and database. `hooklatch_operator::doctor` judges what
//! was found.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use reqwest::Client;
use reqwest::tls::TlsInfo;
use serde_json::json;
use tokio::time::Instant;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::api_client::{ApiAnswer, ApiError};
use super::output::{Screen, Shown, Tone};
use super::remote::Remote;
use super::remote::{ReachArgs, is_loopback};
use super::shared::{Ending, missing_file, say, with_causes};
use hooklatch_contract::{DoctorView, FindingVerdict, FindingView, ProbeView};
use hooklatch_core::config::{ConfigProblem, DatabaseConfig};
use hooklatch_core::figures::plural;
use hooklatch_core::net::{client_builder, read_capped};
use hooklatch_core::types::Clock;
use hooklatch_operator::doctor::{
    self, CONFIG, PLAIN, ProbeRequest, ProbeResponse, SERVER, days_left, judge, plan,
};
use hooklatch_operator::load::{Kinds, Loaded, Settings, load};
use hooklatch_operator::setup;

#[derive(Args)]
#[command(after_help = "Examples:
  hooklatch doctor                      everything, in a few seconds
  hooklatch doctor --all                passed checks, too
  hooklatch doctor --json | jq '.findings[] | select(.verdict == \"failure\")'

Exit codes: 0 passed, 8 warnings, 1 failures.")]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Show passed checks, too.
    #[arg(long)]
    all: bool,
    /// Read every page of the SQLite file, for up to 12 s.
    #[arg(long)]
    deep: bool,
    /// Do not send requests through `server.public_url`.
    #[arg(long)]
    no_probe: bool,
    /// PEM file with the only CA certificates to trust for `server.public_url`.
    #[arg(long, value_name = "FILE")]
    public_ca_file: Option<PathBuf>,
}

/// Runs `hooklatch doctor`: queries the server, sends probes, prints findings.
pub(super) fn doctor(args: &DoctorArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let remote = Remote::open(&args.reach, file, kinds)?;
    let deep = args.deep.then_some("true");
    let answer: Result<ApiAnswer<DoctorView>, ApiError> = remote.api.get(&["doctor"], &[("deep", deep)]);
    let report = match answer {
        Ok(answer) => {
            let mut findings = answer.view.findings;
            if !args.no_probe {
                findings.extend(probed(&remote, args)?);
            }
            DoctorReport {
                server: Some(remote.api.server().to_owned()),
                node: Some(answer.view.node),
                version: Some(answer.view.version),
                findings,
            }
        }
        Err(error @ ApiError::Unreached { .. })
            if args.reach.profile.is_none() && args.reach.url.is_none() =>
        {
            let unreachable = doctor::SERVER.warning(error.to_string()).cure(
                "start it, or name it with --url or --profile; what follows is from the configuration and the database alone",
            );
            let mut findings = vec![unreachable];
            findings.extend(remote.api.run(alone(file, kinds, args.deep)));
            DoctorReport { server: None, node: None, version: None, findings }
        }
        Err(error) => return Err(error.into()),
    };
    let report = DoctorReport { findings: doctor::in_order(report.findings), ..report };
    print(&remote.screen, &report, args.all);
    Ok(ending(&report.findings).code())
}

/// Findings from requests through `server.public_url`.
fn probed(remote: &Remote, args: &DoctorArgs) -> anyhow::Result<Vec<FindingView>> {
    let answer: Result<ApiAnswer<ProbeView>, ApiError> = remote.api.post_query(&["probes"], None::<&()>);
    match answer {
        Ok(answer) => remote.api.run(outside(&answer.view, args.public_ca_file.as_deref())),
        Err(error) => {
            Ok(vec![doctor::REACHED.unknown(format!("the server gave no token for probes: {error}"))])
        }
    }
}

fn ending(findings: &[FindingView]) -> Ending {
    match findings.iter().map(|finding| finding.verdict).max() {
        Some(FindingVerdict::Failure) => Ending::Failed,
        Some(FindingVerdict::Warning) => Ending::Warned,
        _ => Ending::Done,
    }
}

/// Longest time of one probe.
const PROBE_LIMIT: Duration = Duration::from_secs(15);
/// Longest time of all of them.
const ALL_LIMIT: Duration = Duration::from_mins(1);
/// Longest answer that is read. Bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// The result of one probe, and the end of the certificate that the server presented.
struct Sent {
    outcome: ProbeResponse,
    not_after_s: Option<i64>,
}

/// Findings about the way to the receiver.
async fn outside(view: &ProbeView, ca: Option<&Path>) -> anyhow::Result<Vec<FindingView>> {
    let client = probe_client(ca)?;
    let until = Instant::now() + ALL_LIMIT;
    let mut probes: Vec<(ProbeRequest, ProbeResponse)> = Vec::new();
    let mut not_after_s = None;
    for request in plan(view) {
        let sent = if Instant::now() < until {
            send(&client, &request).await
        } else {
            Sent { outcome: ProbeResponse::Failed("no time was left for it".to_owned()), not_after_s: None }
        };
        not_after_s = not_after_s.or(sent.not_after_s);
        let is_lost = probes.is_empty() && matches!(sent.outcome, ProbeResponse::Failed(_));
        probes.push((request, sent.outcome));
        if is_lost {
            // The other probes would not arrive either.
            break;
        }
    }
    let mut findings = vec![scheme(&view.public_url, not_after_s)];
    findings.extend(judge(view, &probes));
    Ok(findings)
}

fn probe_client(ca: Option<&Path>) -> anyhow::Result<Client> {
    let mut builder = client_builder().tls_info(true).timeout(PROBE_LIMIT);
    if let Some(path) = ca {
        let unusable = || format!("--public-ca-file {}", path.display());
        let pem = std::fs::read(path).with_context(unusable)?;
        let authorities = reqwest::Certificate::from_pem_bundle(&pem).with_context(unusable)?;
        builder = builder.tls_certs_only(authorities);
    }
    builder.build().context("could not make a client")
}

async fn send(client: &Client, probe: &ProbeRequest) -> Sent {
    let mut request = client.post(&probe.url).body(probe.body.clone());
    for (name, value) in &probe.headers {
        request = request.header(name, value);
    }
    let began = Instant::now();
    let response = match request.send().await {
        Ok(response) => response,
        Err(error) => return Sent { outcome: ProbeResponse::Failed(why(error)), not_after_s: None },
    };
    let status = response.status().as_u16();
    let location = response.headers().get("location").and_then(|value| value.to_str().ok());
    // A redirect may hold the token.
    let location = location.map(|text| text.split('?').next().unwrap_or_default().to_owned());
    let not_after_s =
        response.extensions().get::<TlsInfo>().and_then(TlsInfo::peer_certificate).and_then(end_of);
    let outcome = match read_capped(response, ANSWER_BYTES_MAX).await {
        Ok(body) => ProbeResponse::Answer {
            status,
            location,
            body: body.unwrap_or_default(),
            took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        },
        Err(error) => ProbeResponse::Failed(why(error)),
    };
    Sent { outcome, not_after_s }
}

/// The reason of a failure without its URL, which has the token.
fn why(error: reqwest::Error) -> String {
    with_causes(&error.without_url().into())
}

fn end_of(der: &[u8]) -> Option<i64> {
    X509Certificate::from_der(der).ok().map(|(_, parsed)| parsed.validity().not_after.timestamp())
}

fn scheme(public_url: &str, not_after_s: Option<i64>) -> FindingView {
    if let Some(not_after_s) = not_after_s {
        return days_left(PLAIN, "certificate", not_after_s, Clock::system().now_ms());
    }
    if reqwest::Url::parse(public_url).is_ok_and(|url| is_loopback(&url)) {
        return PLAIN
            .note(format!("{public_url} is this machine alone"))
            .cure("set server.public_url to what senders call, before the first of them does");
    }
    if public_url.starts_with("https://") {
        return PLAIN.well("https");
    }
    PLAIN
        .warning(format!("{public_url} is plain HTTP"))
        .cure("put TLS before it, or set [server.tls], and change server.public_url")
}

/// Findings about the configuration and its database. A missing database is not created.
async fn alone(file: Option<&Path>, kinds: &Kinds, is_deep: bool) -> Vec<FindingView> {
    let config = match load(&Settings::of_process(file), kinds) {
        Ok(Loaded { config, .. }) => config,
        Err(problems) => {
            let found = problems.iter().map(|problem| {
                CONFIG.failure(problem.to_string()).cure("hooklatch check says all that is wrong")
            });
            return found.collect();
        }
    };
    let mut found: Vec<String> = config.warnings.iter().map(ToString::to_string).collect();
    found.extend(hooklatch_operator::load::warnings(&config, kinds));
    let mut findings = doctor::warnings(&found);
    if missing_file(&config.database).is_some() {
        findings.push(SERVER.note("the database's file is not there yet").about("database"));
        return findings;
    }
    // A command does not wait a minute for a database that is away.
    let database = DatabaseConfig { connect_wait_ms: 0, ..config.database.clone() };
    match setup::store(&database, &config.encryption, false).await {
        Ok(opened) => {
            if opened.schema.is_usable() {
                let times = (&Clock::system(), config.outbox.lease_ms);
                findings.extend(doctor::database(&opened.store, &database, times, is_deep).await);
            } else {
                let why =
                    SERVER.failure(format!("schema of the database is {}", opened.schema)).about("database");
                findings.push(why.cure("hooklatch migrate"));
            }
            opened.store.close().await;
        }
        Err(error) => {
            let cure = if error.is::<ConfigProblem>() {
                "docs/security.md says what a key id stands for"
            } else {
                "start it, or correct database.url; docs/postgres.md says what PostgreSQL needs; a file belongs to one process"
            };
            findings.push(SERVER.failure(with_causes(&error)).about("database").cure(cure));
        }
    }
    findings
}

/// The findings, and the server that they are about.
struct DoctorReport {
    /// URL of the server that answered; `None` when none did.
    server: Option<String>,
    node: Option<String>,
    version: Option<String>,
    findings: Vec<FindingView>,
}

/// Prints the findings; in words, those that are well only with `is_all`.
fn print(screen: &Screen, report: &DoctorReport, is_all: bool) {
    let DoctorReport { server, node, version, findings } = report;
    if screen.is_json {
        let worst = findings.iter().map(|finding| finding.verdict).max();
        say(json!({
            "server": server, "node": node, "version": version,
            "verdict": worst.unwrap_or(FindingVerdict::Well).as_str(), "findings": findings,
        }));
        return;
    }
    let shown = findings.iter().filter(|finding| is_all || finding.verdict != FindingVerdict::Well);
    let mut lines: Vec<String> = shown.map(|finding| entry(screen, finding)).collect();
    lines.push(summary(findings));
    screen.print(&lines.join("\n"));
}

fn entry(screen: &Screen, finding: &FindingView) -> String {
    let tone = match finding.verdict {
        FindingVerdict::Well => Tone::Good,
        FindingVerdict::Note => Tone::Faint,
        FindingVerdict::Unknown | FindingVerdict::Warning => Tone::Waits,
        FindingVerdict::Failure => Tone::Bad,
    };
    let verdict = screen.paint(tone, finding.verdict.as_str());
    let subject = finding.subject.as_ref().map(|subject| format!(" ({subject})")).unwrap_or_default();
    let bound = finding.bound.as_ref().map(|bound| format!(" [bound: {bound}]")).unwrap_or_default();
    let head = Shown::text(format!("{}{subject}: {}{bound}", finding.check, finding.found));
    let mut lines = vec![format!("{verdict}  {}", head.as_str())];
    if finding.is_bad() {
        lines.push(format!("    looked at  {}", Shown::text(&finding.looked_at).as_str()));
    }
    for (name, text) in [("means", &finding.meaning), ("do", &finding.remedy)] {
        lines.extend(text.as_ref().map(|text| format!("    {name:<9}  {}", Shown::text(text).as_str())));
    }
    lines.join("\n")
}

fn summary(findings: &[FindingView]) -> String {
    let of = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count() as u64;
    let unknown = match of(FindingVerdict::Unknown) {
        0 => String::new(),
        unknown => format!("{unknown} not found out, "),
    };
    let (failures, warnings, notes) = (
        plural(of(FindingVerdict::Failure), "failure"),
        plural(of(FindingVerdict::Warning), "warning"),
        plural(of(FindingVerdict::Note), "note"),
    );
    format!("{failures}, {warnings}, {unknown}{notes}; {} well", of(FindingVerdict::Well))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{Note, Warning, Well};

    #[test]
    fn the_worst_finding_decides_how_the_command_ends() {
        let [well, unknown, warning, failure] = [
            doctor::SERVER.well("x"),
            doctor::SERVER.unknown("x"),
            doctor::SERVER.warning("x"),
            doctor::SERVER.failure("x"),
        ];
        for (findings, want) in [
            (vec![], Ending::Done),
            (vec![well.clone(), unknown], Ending::Done),
            (vec![warning.clone(), well], Ending::Warned),
            (vec![failure, warning], Ending::Failed),
        ] {
            assert_eq!(ending(&findings), want);
        }
    }

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        #[track_caller]
        fn check(url: &str, want: FindingVerdict) {
            assert_eq!(scheme(url, None).verdict, want, "{url}");
        }
        check("http://127.0.0.1:8080", Note);
        check("http://[::1]:8080", Note);
        check("http://localhost", Note);
        check("http://hooks.example.com", Warning);
        check("https://hooks.example.com", Well);
        let soon_s = Clock::system().now_ms() / 1_000 + 3 * 86_400;
        assert_eq!(scheme("https://hooks.example.com", Some(soon_s)).verdict, Warning);
    }
}
