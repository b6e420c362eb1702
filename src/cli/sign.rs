//! `sign`: a request as its sender would send it, offline, ready to paste.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::{complain, find_kind, load, say};
use crate::config::Secret;
use crate::provider::{ActiveProvider, Provider, dev_secret, filled_sample};
use crate::types::Clock;
use crate::verify::{SignAt, Signed};

#[derive(Args)]
pub(super) struct SignArgs {
    /// The provider kind, or a provider of the configuration.
    kind: String,
    /// The sample's event type; the kind's first one by default.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Sign this file's bytes instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Where the request goes; part of what some kinds sign.
    #[arg(long)]
    url: Option<String>,
    /// Sign with this secret instead of the configured one.
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
}

/// Somebody who can sign: a kind with one provider's secrets.
pub(super) struct Signer<'a> {
    pub(super) kind: &'a Provider,
    pub(super) provider: ActiveProvider,
    /// Where the running server has it.
    pub(super) url: String,
}

/// Finds `name` among the configured providers, else among the kinds, where the dev secret serves.
pub(super) fn signer<'a>(
    name: &str,
    secret: Option<&str>,
    file: Option<&Path>,
    kinds: &'a [Provider],
) -> anyhow::Result<Signer<'a>> {
    let config = load(file, false, kinds).ok();
    let configured = config.as_ref().and_then(|config| {
        let (_, provider) = config.providers.iter().find(|(known, _)| known.as_str() == name)?;
        Some((provider, config))
    });
    let kind = find_kind(kinds, configured.map_or(name, |(provider, _)| provider.kind.as_str()))?;
    let spec = kind.spec().map_err(Clone::clone)?;
    let secrets = match (secret, configured) {
        (Some(secret), _) => vec![Secret::new(secret)],
        (None, Some((provider, _))) => provider.secrets.clone(),
        (None, None) => {
            complain(format!(
                "hooklatch: no provider `{name}` is configured; signing with the published dev secret"
            ));
            vec![Secret::new(dev_secret(spec))]
        }
    };
    let provider = kind.judge_with(&secrets).map_err(|why| anyhow::anyhow!("{why}"))?;
    let base = config.map_or_else(|| "http://127.0.0.1:8080".to_owned(), |config| config.server.public_url);
    Ok(Signer { kind, provider, url: format!("{base}/webhooks/{name}") })
}

impl Signer<'_> {
    /// The sample of `event_type`, or the first; or which there are.
    pub(super) fn sample(&self, event_type: Option<&str>) -> anyhow::Result<(&'static str, &'static str)> {
        let samples = self.kind.sample_list();
        let found = match event_type {
            None => samples.first(),
            Some(wanted) => samples.iter().find(|(known, _)| *known == wanted),
        };
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = samples.iter().map(|(known, _)| *known).collect();
            anyhow::anyhow!("kind `{}` has samples of {}", self.kind.kind(), known.join(", "))
        })
    }
}

pub(super) fn sign(args: &SignArgs, file: Option<&Path>, kinds: &[Provider]) -> anyhow::Result<ExitCode> {
    let signer = signer(&args.kind, args.secret.as_deref(), file, kinds)?;
    let now_s = args.now.unwrap_or_else(|| Clock::system().now_ms() / 1_000);
    let id = args.id.clone().unwrap_or_else(fresh_id);
    let url = args.url.clone().unwrap_or_else(|| signer.url.clone());
    let (event_type, body) = if let Some(path) = &args.body {
        (args.event_type.clone().unwrap_or_else(|| "sample".to_owned()), read(path)?)
    } else {
        let (event_type, sample) = signer.sample(args.event_type.as_deref())?;
        (event_type.to_owned(), filled_sample(sample, &id, now_s).into_bytes())
    };
    let at = SignAt { now_s, url: url.clone(), id, event_type };
    let signed = signer.provider.sign(&body, &at)?;
    if args.headers {
        for (name, value) in &signed.headers {
            say(format!("{name}: {value}"));
        }
    } else {
        say(curl(&url, &signed)?);
    }
    Ok(ExitCode::SUCCESS)
}

/// The curl command of a kind's first sample under its dev secret.
pub(super) fn dev_curl(kinds: &[Provider], kind: &str, url: &str) -> anyhow::Result<String> {
    let kind = find_kind(kinds, kind)?;
    let spec = kind.spec().map_err(Clone::clone)?;
    let provider =
        kind.judge_with(&[Secret::new(dev_secret(spec))]).map_err(|why| anyhow::anyhow!("{why}"))?;
    let (event_type, sample) = kind.sample_list().first().copied().context("the kind has no samples")?;
    let (now_s, id) = (Clock::system().now_ms() / 1_000, fresh_id());
    let body = filled_sample(sample, &id, now_s);
    let at = SignAt { now_s, url: url.to_owned(), id, event_type: event_type.to_owned() };
    curl(url, &provider.sign(body.as_bytes(), &at)?)
}

/// An id nobody had: 16 characters that look like a sender's.
pub(super) fn fresh_id() -> String {
    (0..16).map(|_| fastrand::alphanumeric()).collect()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut body = Vec::new();
        std::io::Read::read_to_end(&mut std::io::stdin(), &mut body)?;
        return Ok(body);
    }
    std::fs::read(path).with_context(|| format!("could not read `{}`", path.display()))
}

/// One command for a POSIX shell. The body goes as it is, byte for byte.
fn curl(url: &str, signed: &Signed) -> anyhow::Result<String> {
    let body = std::str::from_utf8(&signed.body)
        .context("the body is not text; use --headers and `--data-binary @FILE`")?;
    let mut command = format!("curl -i {} \\\n", quoted(url));
    for (name, value) in &signed.headers {
        command = command + "  -H " + &quoted(&format!("{name}: {value}")) + " \\\n";
    }
    Ok(command + "  --data-binary " + &quoted(body))
}

/// In single quotes, in which a shell touches nothing.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_gives_back_what_was_quoted() {
        for text in ["plain", "it's", "''", "a\nb $HOME `id` \\ \"x\""] {
            let shown = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(text))])
                .output();
            assert_eq!(String::from_utf8(shown.expect("sh").stdout).expect("text"), text);
        }
    }
}
