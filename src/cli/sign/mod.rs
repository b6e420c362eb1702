//! `sign`: requests as their senders would send them, built offline and ready to paste. [`signer`] finds the secret
//! that signs, also for `send` and `explain`; `own_vectors.rs` builds the vectors that every kind must have.

mod own_vectors;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;

pub(super) use self::own_vectors::vectors as kind_vectors;
use super::shared::{Usage, complain, find_kind, say, typed_secret, unknown};
use hooklatch_core::config::Secret;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools, unusable};
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, curl, filled_sample};
use hooklatch_verify::spec::Spec;
use hooklatch_verify::{DevKeys, SignAt, Signed};

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
        // Vectors have their own secrets, so the configuration makes no difference.
        let kind = find_kind(kinds, &args.kind)?;
        say(kind_vectors(kind, args.now, &dev_keys(kind)?)?);
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

/// Most events that are read of one sample.
const EVENTS_N_MAX: usize = 100;

/// What signs requests: a kind with one provider's secrets.
pub(crate) struct Signer<'a> {
    pub(crate) kind: &'a Provider,
    pub(crate) provider: ActiveProvider,
    /// URL of the provider at the running server.
    pub(crate) url: String,
}

/// Finds `name` among the configured providers (by name, else by kind), else among the kinds, where the dev
/// secret serves. A configuration that cannot be used is an error, unless `secret` makes it unnecessary:
/// a signature by another secret than the one written there would only mislead.
pub(crate) fn signer<'a>(
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
    /// Returns the URL that the request goes to: `given`, completed by the provider's path when it names a server
    /// alone; else the configured URL.
    pub(crate) fn url_or(&self, given: Option<&str>) -> String {
        let Some(given) = given else { return self.url.clone() };
        let (server, path) = (given.trim_end_matches('/'), self.url.rfind("/webhooks/"));
        let is_server_alone = server.split_once("://").is_some_and(|(_, rest)| !rest.contains(['/', '?']));
        match path.and_then(|from| self.url.get(from..)).filter(|_| is_server_alone) {
            Some(path) => format!("{server}{path}"),
            None => given.to_owned(),
        }
    }

    /// Finds the `nth` sample, from 1 on, of `event_type`: as the kind lists it (`pull_request`), or as it reads it in the
    /// sample (`pull_request.closed`). Without a type, all samples of the kind count.
    pub(crate) fn sample(&self, event_type: Option<&str>, nth: usize) -> anyhow::Result<(&str, &str)> {
        let (samples, name) = (self.kind.sample_list(), self.kind.kind());
        if samples.is_empty() {
            return Err(Usage(format!("kind `{name}` has no samples; sign a file with --body FILE")).into());
        }
        let Some(wanted) = event_type else {
            return samples.get(nth.saturating_sub(1)).copied().ok_or_else(|| {
                Usage(format!("--nth {nth}: kind `{name}` has {} samples, counted from 1", samples.len()))
                    .into()
            });
        };
        let is_wanted =
            |(listed, text): &&(&str, &str)| *listed == wanted || self.reads(listed, text, wanted);
        let found: Vec<_> = samples.iter().filter(is_wanted).collect();
        if found.is_empty() {
            let listed: BTreeSet<&str> = samples.iter().map(|(listed, _)| *listed).collect();
            let why = unknown(&format!("kind `{name}` has no sample of"), wanted, listed.iter().copied());
            return Err(Usage(why).into());
        }
        found.get(nth.saturating_sub(1)).map(|sample| **sample).ok_or_else(|| {
            let n = found.len();
            Usage(format!("--nth {nth}: kind `{name}` has {n} of `{wanted}`, counted from 1")).into()
        })
    }

    /// Whether an event of this sample is read as one of type `wanted`.
    fn reads(&self, listed: &str, text: &str, wanted: &str) -> bool {
        let (now_s, id) = (Clock::system().now_ms() / 1_000, fresh_id());
        let body = filled_sample(text, &id, now_s);
        let at = SignAt { now_s, url: self.url.clone(), id, event_type: listed.to_owned() };
        let events = self.provider.test_events(body.as_bytes(), &at, EVENTS_N_MAX).unwrap_or_default();
        events.iter().any(|event| event.event_type == wanted)
    }
}

/// The development keys of `serve --dev` in this folder; they are generated when there are none yet.
fn dev_keys(kind: &Provider) -> anyhow::Result<DevKeys> {
    hooklatch_operator::load::dev_keys_of_folder(std::slice::from_ref(kind))
        .context("could not read or make development keys")
}

/// A new random id: 15 digits, which some kinds take alone, and letters as well for the others.
pub(crate) fn fresh_id() -> String {
    let digits = fastrand::u64(100_000_000_000_000..1_000_000_000_000_000);
    let rest = (0..8).map(|_| fastrand::alphabetic());
    digits.to_string().chars().chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_receive::providers::builtin;

    #[test]
    fn a_server_alone_is_completed_by_the_path_of_the_provider() {
        #[track_caller]
        fn check(given: Option<&str>, want: &str) {
            let kinds = builtin();
            let kind = kinds.iter().find(|kind| kind.kind() == "stripe").expect("a kind");
            let provider = kind.dev(&DevKeys::default()).expect("a provider");
            let signer = Signer { kind, provider, url: "http://a.test/in/webhooks/stripe_eu".to_owned() };
            assert_eq!(signer.url_or(given), want);
        }
        check(None, "http://a.test/in/webhooks/stripe_eu");
        check(Some("http://127.0.0.1:8080"), "http://127.0.0.1:8080/webhooks/stripe_eu");
        check(Some("http://127.0.0.1:8080/"), "http://127.0.0.1:8080/webhooks/stripe_eu");
        check(Some("https://b.test/webhooks/x"), "https://b.test/webhooks/x");
        check(Some("https://b.test?x=1"), "https://b.test?x=1");
        check(Some("b.test"), "b.test");
    }

    #[track_caller]
    fn with_signer<T>(kind: &str, check: impl Fn(&Signer<'_>) -> T) -> T {
        let kinds = builtin();
        let kind = kinds.iter().find(|known| known.kind() == kind).expect("a kind");
        let provider = kind.dev(&DevKeys::default()).expect("a provider");
        check(&Signer { kind, provider, url: "http://a.test/webhooks/x".to_owned() })
    }

    #[test]
    fn a_sample_that_is_not_there_is_answered_with_those_that_are() {
        with_signer("linear", |signer| {
            let first = signer.sample(None, 1).expect("a sample").0;
            assert_eq!(signer.sample(Some(first), 1).expect("the same").0, first);
            let why = signer.sample(Some("no.such"), 1).expect_err("none").to_string();
            assert!(
                why.contains("kind `linear` has no sample of `no.such`; there are") && why.contains(first),
                "{why}"
            );
        });
        with_signer("stripe", |signer| {
            let why = signer.sample(Some("invoice.payd"), 1).expect_err("none").to_string();
            assert_eq!(why, "kind `stripe` has no sample of `invoice.payd`; did you mean `invoice.paid`?");
        });
    }

    #[test]
    fn each_of_several_samples_of_one_type_is_found_by_its_place() {
        with_signer("stripe", |signer| {
            let is = |nth, part: &str| {
                let (event_type, text) =
                    signer.sample(Some("payment_intent.succeeded"), nth).expect("a sample");
                assert_eq!(event_type, "payment_intent.succeeded");
                assert!(text.contains(part), "{nth}: {text}");
            };
            is(1, "\"livemode\": false");
            is(2, "\"account\": \"acct_");
            let why = signer.sample(Some("payment_intent.succeeded"), 4).expect_err("none").to_string();
            assert_eq!(why, "--nth 4: kind `stripe` has 3 of `payment_intent.succeeded`, counted from 1");
            let why = signer.sample(None, 1_000).expect_err("none").to_string();
            assert!(why.contains("--nth 1000: kind `stripe` has "), "{why}");
        });
    }

    #[test]
    fn a_sample_is_found_by_the_type_that_is_read_in_it() {
        with_signer("github", |signer| {
            let (listed, text) = signer.sample(Some("pull_request.closed"), 1).expect("a sample");
            assert_eq!(listed, "pull_request", "which the header has");
            assert!(text.contains(r#""action":"closed""#), "{text}");
        });
    }

    #[test]
    fn fresh_ids_differ_in_their_digits_alone() {
        let digits = |id: String| id.chars().filter(char::is_ascii_digit).collect::<String>();
        assert_ne!(digits(fresh_id()), digits(fresh_id()));
    }
}
