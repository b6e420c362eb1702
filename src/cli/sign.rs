//! `sign`: a request as its sender would send it, offline, ready to paste.

mod own;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

use super::{Kinds, Settings, Usage, complain, find_kind, load_for_tools, say, unusable};
use crate::config::Secret;
use crate::plain;
use crate::provider::{ActiveProvider, Provider, filled_sample};
use crate::spec::Spec;
use crate::types::Clock;
use crate::verify::{DevKeys, SignAt, Signed};

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
    /// Where the request goes: the whole URL, or the server alone. Part of what some kinds sign.
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
    /// Print the kind's own vectors instead, for its `vectors.json`: good, tampered, signed with another secret and,
    /// if a time is signed, stale.
    #[arg(long, conflicts_with_all = ["headers", "body", "secret", "url", "id", "event_type"])]
    vectors: bool,
}

/// Somebody who can sign: a kind with one provider's secrets.
pub(super) struct Signer<'a> {
    pub(super) kind: &'a Provider,
    pub(super) provider: ActiveProvider,
    /// Where the running server has it.
    pub(super) url: String,
}

/// Finds `name` among the configured providers (by name, else by kind), else among the kinds, where the dev
/// secret serves. A configuration that cannot be used is an error, unless `secret` makes it unnecessary:
/// a signature by another secret than the one written there would only mislead.
pub(super) fn signer<'a>(
    name: &str,
    secret: Option<&str>,
    file: Option<&Path>,
    kinds: &'a Kinds,
) -> anyhow::Result<Signer<'a>> {
    let config = match load_for_tools(&Settings::of_process(file), kinds) {
        Ok(config) => Some(config),
        Err(problems) if secret.is_none() => return Err(unusable(&problems)),
        Err(_) => {
            complain(
                "hooklatch: the configuration is passed over, because it cannot be used (see `hooklatch check`)",
            );
            None
        }
    };
    let configured = config.as_ref().and_then(|config| {
        let of_kind = || config.providers.iter().find(|(_, provider)| provider.kind.as_str() == name);
        config.providers.iter().find(|(known, _)| known.as_str() == name).or_else(of_kind)
    });
    let kind = find_kind(kinds, configured.map_or(name, |(_, provider)| provider.kind.as_str()))?;
    let name = configured.map_or(name, |(name, _)| name.as_str());
    let settings = configured.map(|(_, provider)| provider.settings.clone()).unwrap_or_default();
    let judged = match (secret, configured) {
        (Some(secret), _) => kind.judge_with(&[Secret::new(secret)], &settings),
        (None, Some((_, provider))) => kind.judge_with(&provider.secrets, &settings),
        (None, None) => {
            let with = if kind.spec().is_ok_and(Spec::needs_generated_keys) {
                "the development key of this folder"
            } else {
                "the published dev secret"
            };
            complain(format!("hooklatch: no provider `{name}` is configured; signing with {with}"));
            kind.dev(&dev_keys(kind)?)
        }
    };
    let age = configured.map(|(_, provider)| provider.age).unwrap_or_default();
    let provider = judged.map_err(|why| anyhow::anyhow!("{why}"))?.with_age(age);
    let base = config.as_ref().map_or("http://127.0.0.1:8080", |config| config.server.public_url.as_str());
    Ok(Signer { kind, provider, url: format!("{base}/webhooks/{name}") })
}

impl Signer<'_> {
    /// Where the request goes: `given`, completed by the provider's path when it names a server alone; else
    /// where the configuration says.
    pub(super) fn url_or(&self, given: Option<&str>) -> String {
        let Some(given) = given else { return self.url.clone() };
        let (server, path) = (given.trim_end_matches('/'), self.url.rfind("/webhooks/"));
        let is_server_alone = server.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?']));
        match path.and_then(|from| self.url.get(from..)).filter(|_| is_server_alone) {
            Some(path) => format!("{server}{path}"),
            None => given.to_owned(),
        }
    }

    /// As [`sample`], of its kind.
    pub(super) fn sample(&self, event_type: Option<&str>) -> anyhow::Result<(&str, &str)> {
        sample(self.kind, event_type)
    }
}

/// The sample of `event_type`, or the first; or which there are.
fn sample<'a>(kind: &'a Provider, event_type: Option<&str>) -> anyhow::Result<(&'a str, &'a str)> {
    let (samples, name) = (kind.sample_list(), kind.kind());
    if samples.is_empty() {
        return Err(Usage(format!("kind `{name}` has no samples; sign a file with --body FILE")).into());
    }
    let found = match event_type {
        None => samples.first(),
        Some(wanted) => samples.iter().find(|(known, _)| *known == wanted),
    };
    found.copied().ok_or_else(|| {
        let known: Vec<&str> = samples.iter().map(|(known, _)| *known).collect();
        Usage(format!("kind `{name}` has samples of {}", known.join(", "))).into()
    })
}

pub(super) fn sign(args: &SignArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    if args.vectors {
        // They have secrets of their own, so what is configured makes no difference.
        let kind = find_kind(kinds, &args.kind)?;
        say(own::vectors(kind, args.now, &dev_keys(kind)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let signer = signer(&args.kind, args.secret.as_deref(), file, kinds)?;
    let now_s = args.now.unwrap_or_else(|| Clock::system().now_ms() / 1_000);
    let id = args.id.clone().unwrap_or_else(fresh_id);
    let url = signer.url_or(args.url.as_deref());
    let (event_type, body) = if let Some(path) = &args.body {
        (args.event_type.clone().unwrap_or_else(|| "sample".to_owned()), read(path)?)
    } else {
        let (event_type, sample) = signer.sample(args.event_type.as_deref())?;
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
        say(curl(&url, &request));
    }
    Ok(ExitCode::SUCCESS)
}

fn carries_id(signed: &Signed, id: &str) -> bool {
    signed.headers.iter().any(|(_, value)| value == id)
}

fn dev_keys(kind: &Provider) -> anyhow::Result<DevKeys> {
    crate::load::dev_keys_of_folder(std::slice::from_ref(kind))
        .context("could not read or make development keys")
}

/// The curl command of a kind's first sample under its dev secret.
pub(super) fn dev_curl(kinds: &Kinds, kind: &str, url: &str) -> anyhow::Result<String> {
    let kind = find_kind(kinds, kind)?;
    let provider = kind.dev(&dev_keys(kind)?).map_err(|why| anyhow::anyhow!("{why}"))?;
    let samples = kind.sample_list();
    let (event_type, sample) = samples.first().copied().context("the kind has no samples")?;
    let (now_s, id) = (Clock::system().now_ms() / 1_000, fresh_id());
    let body = filled_sample(sample, &id, now_s);
    let at = SignAt { now_s, url: url.to_owned(), id, event_type: event_type.to_owned() };
    Ok(curl(url, &provider.sign(body.as_bytes(), &at)?))
}

/// An id nobody had: 15 digits, which some kinds take alone, and letters as well for the others.
pub(super) fn fresh_id() -> String {
    let digits = fastrand::u64(100_000_000_000_000..1_000_000_000_000_000);
    let rest = (0..8).map(|_| fastrand::alphabetic());
    digits.to_string().chars().chain(rest).collect()
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
fn curl(url: &str, signed: &Signed) -> String {
    let text = std::str::from_utf8(&signed.body).ok().filter(|text| is_pasteable(text));
    let pipe =
        if text.is_some() { String::new() } else { format!("printf '%b' '{}' | ", octal(&signed.body)) };
    let mut words = vec![format!("{pipe}curl -sS -i {}", quoted(url))];
    words.extend(
        signed.headers.iter().map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}")))),
    );
    words.push(format!("--data-binary {}", quoted(text.unwrap_or("@-"))));
    words.join(" \\\n  ")
}

/// Whether a terminal and curl take it as it is: curl reads a file after a leading `@`, and control
/// characters, seen or not, do not survive being shown and pasted.
fn is_pasteable(text: &str) -> bool {
    !text.starts_with('@') && !text.chars().any(|c| plain::is_hidden(c) && c != '\n')
}

/// Every byte as `\0ooo`, which `printf '%b'` turns back.
fn octal(body: &[u8]) -> String {
    body.iter().map(|byte| format!("\\0{byte:03o}")).collect::<Vec<_>>().concat()
}

/// In single quotes, in which a shell touches nothing.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What curl would be given as the body, with `curl` replaced by a function that shows it.
    fn shown_by_shell(body: &[u8]) -> Vec<u8> {
        let signed = Signed { headers: vec![("x".to_owned(), "it's".to_owned())], body: body.to_vec() };
        let function = "curl() { for last; do :; done; if [ \"$last\" = @- ]; then cat; else printf %s \"$last\"; fi; }\n";
        let script = format!("{function}{}", curl("http://127.0.0.1/", &signed));
        std::process::Command::new("sh").args(["-c", &script]).output().expect("sh").stdout
    }

    #[test]
    fn a_pasted_command_sends_the_same_bytes() {
        let bodies: [&[u8]; 9] = [
            b"{\"plain\":1}",
            b"it's",
            b"''",
            b"a\nb $HOME `id` \\ \"x\" !!",
            b"@file",
            b"tab\tand\r\n",
            b"\xff\x00\x80",
            "Zażółć 💶\n".as_bytes(),
            "a\u{202e}b\u{200b}".as_bytes(),
        ];
        for body in bodies {
            assert_eq!(shown_by_shell(body), body);
        }
    }

    #[test]
    fn fresh_ids_differ_in_their_digits_alone() {
        let digits = |id: String| id.chars().filter(char::is_ascii_digit).collect::<String>();
        assert_ne!(digits(fresh_id()), digits(fresh_id()));
    }
}
