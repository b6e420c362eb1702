//! `explain`: why a saved request is or is not verified, step by step. It never shows the expected signature. `vectors`
//! checks files of signed requests, each at its own time with its own secrets.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::remote::ReachArgs;
use super::remote::{PagingArgs, Remote};
use super::shared::{complain, find_kind, report_problems, say, typed_secret};
use super::sign::signer;
use hooklatch_contract::{ExplainVerdict, RejectedView};
use hooklatch_core::types::Clock;
use hooklatch_operator::load::Kinds;
use hooklatch_receive::provider::ActiveProvider;
use hooklatch_receive::vectors::{Judged, Vector, judge, judge_one};
use hooklatch_receive::{SavedRequest, judged, parse_saved};
use hooklatch_verify::RawRequest;

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// `POST /webhooks/NAME`, headers, an empty line and the body; or one vector as a JSON object. A first
    /// line `# now=1700000000` sets the time to judge it at.
    #[arg(required_unless_present = "recent")]
    file: Option<PathBuf>,
    /// List what a running server refused lately, and why, instead.
    #[arg(long, conflicts_with_all = ["file", "secret"])]
    recent: bool,
    /// The provider, when the request's path does not say.
    #[arg(long)]
    provider: Option<String>,
    /// Judge with this secret instead of the configured ones. `-` reads a line of standard input: what stands on a command
    /// line, everybody on the machine can read.
    #[arg(long)]
    secret: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
}

pub(super) fn explain(args: &ExplainArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let Some(path) = args.file.as_ref().filter(|_| !args.recent) else {
        let remote = Remote::open(&args.reach, file, kinds)?;
        let query = [("provider", args.provider.as_deref())];
        return remote.list::<RejectedView>(&["rejected"], &query, Some(&PagingArgs::default()));
    };
    let saved = std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))?;
    if saved.trim_ascii_start().starts_with(b"{") {
        let vector: Vector = serde_json::from_slice(&saved).context("the file is not a vector")?;
        let judged = judge_one(&vector, kinds);
        say(format!("{}: {} at step `{}`: {}", judged.id, judged.verdict, judged.step, judged.why));
        if judged.verdict == "valid" {
            let kind = find_kind(kinds, &vector.kind)?;
            let provider = vector.provider(kind).map_err(|why| anyhow::anyhow!("{why}"))?;
            let request = vector.request().map_err(|why| anyhow::anyhow!("{why}"))?;
            return Ok(explained(&provider, &request));
        }
        return Ok(ExitCode::FAILURE);
    }
    let saved = parse_saved(&saved).map_err(anyhow::Error::msg)?;
    let SavedRequest { provider, query, method, headers, body, now_ms } = saved;
    let name = args.provider.clone().or(provider).context("name the provider with --provider")?;
    let signer = signer(&name, typed_secret(args.secret.as_deref())?.as_deref(), file, kinds)?;
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let received_at_ms = now_ms.unwrap_or_else(|| Clock::system().now_ms());
    let request = RawRequest { method, url: format!("{}{query}", signer.url), headers, body, received_at_ms };
    Ok(explained(&signer.provider, &request))
}

/// Prints the steps, and whether the request would be accepted.
fn explained(provider: &ActiveProvider, request: &RawRequest) -> ExitCode {
    let judged = judged(provider, std::iter::empty(), request);
    for step in &judged.steps {
        say(format!("{:<12}{}", step.word, step.text));
    }
    match judged.verdict {
        ExplainVerdict::Believed | ExplainVerdict::Handshake => ExitCode::SUCCESS,
        ExplainVerdict::NotBelieved | ExplainVerdict::NotRead => ExitCode::FAILURE,
    }
}

#[derive(Args)]
pub(super) struct VectorsArgs {
    /// Files in the format of `providers/*/vectors.json`, or folders of such files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// One JSON object a line: id, kind, expect, verdict, step.
    #[arg(long)]
    json: bool,
}

/// Exit code 1 when a verdict differs from its expectation and that matters.
pub(super) fn vectors(args: &VectorsArgs, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    report_problems(kinds);
    let mut all = Vec::new();
    for file in args.files.iter().map(|path| files(path)).collect::<anyhow::Result<Vec<_>>>()?.concat() {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("could not read `{}`", file.display()))?;
        let judged = judge(&text, kinds).map_err(|why| anyhow::anyhow!("`{}`: {why}", file.display()))?;
        all.extend(judged);
    }
    for one in &all {
        say(if args.json { serde_json::to_string(one)? } else { row(one) });
    }
    let wrong_n = all.iter().filter(|one| one.is_wrong).count();
    if wrong_n > 0 {
        complain(format!("{wrong_n} of {} verdicts differ", all.len()));
    }
    Ok(if wrong_n == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn row(one: &Judged) -> String {
    let mark = if one.is_wrong { "DIFFERS" } else { "" };
    format!("{:<28} {:<18} {:<8} {:<12} {:<10} {mark}", one.id, one.kind, one.expect, one.verdict, one.step)
}

/// `path` itself, or the JSON files of a folder in the order of their names; of a kind's, not its pairs.
fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("could not read `{}`", path.display()))?;
    let mut files: Vec<PathBuf> =
        entries.collect::<Result<Vec<_>, _>>()?.iter().map(std::fs::DirEntry::path).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.retain(|file| !file.ends_with("identity.json"));
    files.sort();
    Ok(files)
}
