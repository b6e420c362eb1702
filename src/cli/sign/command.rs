//! `sign`: a request as its sender would send it, offline, ready to paste.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::super::shared::{complain, find_kind, say, typed_secret};
use super::own_vectors::vectors;
use super::signer::{dev_keys, fresh_id, signer};
use crate::load::Kinds;
use crate::provider::{curl, filled_sample};
use crate::types::Clock;
use crate::verify::{SignAt, Signed};

#[derive(Args)]
pub(crate) struct SignArgs {
    /// The provider kind, or a provider of the configuration.
    kind: String,
    /// The sample's event type; the kind's first one by default.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Which of the samples of that type, where there are several: `hooklatch providers KIND` counts them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000), conflicts_with = "body")]
    nth: u16,
    /// Sign this file's bytes instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// URL that the request goes to: the whole of it, or the server alone. Part of what some kinds sign.
    #[arg(long)]
    url: Option<String>,
    /// Sign with this secret instead of the configured one. `-` reads a line of standard input: what stands on a
    /// command line, everybody on the machine can read.
    #[arg(long)]
    secret: Option<String>,
    /// The event's id; a fresh one by default.
    #[arg(long)]
    id: Option<String>,
    /// Sign at this time instead of now. Unix seconds.
    #[arg(long, value_name = "UNIX_S")]
    now: Option<i64>,
    /// Print the headers alone.
    #[arg(long)]
    headers: bool,
    /// Print the kind's own vectors instead, for its `vectors.json`: good, tampered, signed with another secret and,
    /// if a time is signed, stale.
    #[arg(long, conflicts_with_all = ["headers", "body", "secret", "url", "id", "event_type", "nth"])]
    vectors: bool,
}

pub(crate) fn sign(args: &SignArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    if args.vectors {
        // They have secrets of their own, so what is configured makes no difference.
        let kind = find_kind(kinds, &args.kind)?;
        say(vectors(kind, args.now, &dev_keys(kind)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let signer = signer(&args.kind, typed_secret(args.secret.as_deref())?.as_deref(), file, kinds)?;
    let now_s = args.now.unwrap_or_else(|| Clock::system().now_ms() / 1_000);
    let id = args.id.clone().unwrap_or_else(fresh_id);
    let url = signer.url_or(args.url.as_deref());
    let (event_type, body) = if let Some(path) = &args.body {
        (args.event_type.clone().unwrap_or_else(|| "sample".to_owned()), body_of_file(path)?)
    } else {
        let (event_type, sample) = signer.sample(args.event_type.as_deref(), args.nth.into())?;
        (event_type.to_owned(), filled_sample(sample, &id, now_s).into_bytes())
    };
    let at = SignAt { now_s, url: url.clone(), id, event_type };
    let request = signer.provider.sign(&body, &at)?;
    if args.body.is_some() && args.id.is_some() && !carries_id(&request, &at.id) {
        complain(
            "hooklatch: --id changes nothing: this kind's id is in the body, which --body gives as it is",
        );
    }
    if args.headers {
        if request.body != body {
            complain("hooklatch: this kind signs inside the body, so the headers alone will not be believed");
        }
        for (name, value) in &request.headers {
            say(format!("{name}: {value}"));
        }
    } else {
        say(curl(signer.provider.spec().method, &url, &request));
    }
    Ok(ExitCode::SUCCESS)
}

fn carries_id(signed: &Signed, id: &str) -> bool {
    signed.headers.iter().any(|(_, value)| value == id)
}

/// The curl command of a kind's first sample under its dev secret.
pub(crate) fn dev_curl(kinds: &Kinds, kind: &str, url: &str) -> anyhow::Result<String> {
    let kind = find_kind(kinds, kind)?;
    let provider = kind.dev(&dev_keys(kind)?).map_err(|why| anyhow::anyhow!("{why}"))?;
    let samples = kind.sample_list();
    let (event_type, sample) = samples.first().copied().context("the kind has no samples")?;
    let (now_s, id) = (Clock::system().now_ms() / 1_000, fresh_id());
    let body = filled_sample(sample, &id, now_s);
    let at = SignAt { now_s, url: url.to_owned(), id, event_type: event_type.to_owned() };
    Ok(curl(provider.spec().method, url, &provider.sign(body.as_bytes(), &at)?))
}

/// The bytes of a file; of standard input for `-`.
pub(crate) fn body_of_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut body = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut body)?;
        return Ok(body);
    }
    std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))
}
