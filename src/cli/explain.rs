//! `explain`: why a saved request is or is not believed, step by step. Never shows the expected signature.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::desk::{Desk, PagingArgs};
use super::reach::ReachArgs;
use super::rejected::list_rejected;
use super::shared::{find_kind, say, typed_secret};
use super::sign::signer;
use crate::api::ExplainVerdict;
use crate::load::Kinds;
use crate::provider::ActiveProvider;
use crate::receive::{SavedRequest, judged, parse_saved};
use crate::types::Clock;
use crate::vectors::{Vector, judge_one};
use crate::verify::RawRequest;

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
        let desk = Desk::open(&args.reach, file, kinds)?;
        list_rejected(&desk, &[("provider", args.provider.as_deref())], &PagingArgs::default())?;
        return Ok(ExitCode::SUCCESS);
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
            return Ok(told(&provider, &request));
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
    Ok(told(&signer.provider, &request))
}

/// Says what was found, and whether it would be believed.
fn told(provider: &ActiveProvider, request: &RawRequest) -> ExitCode {
    let judged = judged(provider, std::iter::empty(), request);
    for step in &judged.steps {
        say(format!("{:<12}{}", step.word, step.text));
    }
    match judged.verdict {
        ExplainVerdict::Believed | ExplainVerdict::Handshake => ExitCode::SUCCESS,
        ExplainVerdict::NotBelieved | ExplainVerdict::NotRead => ExitCode::FAILURE,
    }
}
