//! Requests as their senders would send them: `sign` builds them offline, ready to paste; `send` sends signed samples
//! to a test server, and counts its answers; `test-event` makes an event on a server that has real ones. [`signer`]
//! finds the secret that signs, also for `explain`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::api_client::ApiAnswer;
use super::new_kind::kind_vectors;
use super::output::Shown;
use super::remote::{Remote, ServerCommand, WhyArgs};
use super::shared::{Usage, block_on, complain, find_kind, say, typed_secret, unknown};
use hooklatch_contract::{ProviderView, TestEventOrder, TestEventView};
use hooklatch_core::config::Secret;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools, unusable};
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, curl, filled_sample, tamper};
use hooklatch_verify::spec::{EventMethod, Spec};
use hooklatch_verify::{DevKeys, SignAt, Signed};

/// What is signed, by which secret, for which URL.
#[derive(Args)]
struct SampleArgs {
    /// Number of the sample, if the type has several: `hooklatch providers KIND` counts them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000), conflicts_with = "body")]
    nth: u16,
    /// File with the body, instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Complete URL of the request, or the server alone. Default: that of the configuration. Some kinds sign it.
    #[arg(long)]
    url: Option<String>,
    /// Sign with this secret instead of the configured one. `-` reads a line of standard input: other users of the
    /// machine can read command lines.
    #[arg(long)]
    secret: Option<String>,
}

#[derive(Args)]
pub(crate) struct SignArgs {
    /// Provider of the configuration, or provider kind.
    kind: String,
    /// Event type of the sample. Default: the kind's first.
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    #[command(flatten)]
    sample: SampleArgs,
    /// Event id. Default: a new one.
    #[arg(long)]
    id: Option<String>,
    /// Time of the signature in Unix seconds. Default: now.
    #[arg(long, value_name = "UNIX_S")]
    now: Option<i64>,
    /// Print only the headers.
    #[arg(long)]
    headers: bool,
    /// Print the kind's test vectors for its `vectors.json`: valid, tampered, signed with another secret and, if a
    /// time is signed, stale.
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
    let signer = signer(&args.kind, typed_secret(args.sample.secret.as_deref())?.as_deref(), file, kinds)?;
    let now_s = args.now.unwrap_or_else(|| Clock::system().now_ms() / 1_000);
    let id = args.id.clone().unwrap_or_else(fresh_id);
    let url = signer.url_or(args.sample.url.as_deref());
    let chosen = signer.chosen(&args.sample, args.event_type.as_deref())?;
    let body = chosen.body(&id, now_s);
    let at = SignAt { now_s, url: url.clone(), id, event_type: chosen.event_type.to_owned() };
    let request = signer.provider.sign(&body, &at)?;
    if args.sample.body.is_some() && args.id.is_some() && !carries_id(&request, &at.id) {
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

/// What is signed: a file as it is, or a sample that is filled for each event.
struct Chosen<'a> {
    event_type: &'a str,
    sample: &'a str,
    file: Option<Vec<u8>>,
}

impl Chosen<'_> {
    fn body(&self, id: &str, now_s: i64) -> Vec<u8> {
        self.file.clone().unwrap_or_else(|| filled_sample(self.sample, id, now_s).into_bytes())
    }
}

impl Signer<'_> {
    /// The file or the sample that the arguments choose.
    fn chosen<'a>(&'a self, args: &SampleArgs, event_type: Option<&'a str>) -> anyhow::Result<Chosen<'a>> {
        let file = args.body.as_deref().map(body_of_file).transpose()?;
        let (event_type, sample) = match file {
            Some(_) => (event_type.unwrap_or("sample"), ""),
            None => self.sample(event_type, args.nth.into())?,
        };
        Ok(Chosen { event_type, sample, file })
    }

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

    /// Finds the `nth` sample, from 1 on, of `event_type`: as the kind lists it (`pull_request`), or as it reads it in
    /// the sample (`pull_request.closed`). Without a type, all samples of the kind count.
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

/// Age that `--stale` gives a request. Seconds; older than any kind's tolerance.
const STALE_S: i64 = 3_600;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct SendArgs {
    /// Provider of the configuration, or provider kind.
    kind: String,
    /// Event type of the sample. Default: the kind's first.
    event_type: Option<String>,
    #[command(flatten)]
    sample: SampleArgs,
    /// Number of events to send, 1 to 1,000,000.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Concurrent requests, 1 to 1,000.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Send this many further copies of each event.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    duplicate: u32,
    /// Send the requests in random order.
    #[arg(long)]
    reorder: bool,
    /// Sign as of an hour ago; a kind that signs a time must answer 401.
    #[arg(long)]
    stale: bool,
    /// Change one byte after signing; the server must answer 401.
    #[arg(long)]
    bad_signature: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// One request, and the event of which it is a copy.
struct EventCopy {
    event_n: u32,
    signed: Signed,
}

/// Where requests go, and by which method.
#[derive(Clone)]
struct Target {
    method: EventMethod,
    url: String,
}

/// One answer of the server.
struct Response {
    event_n: u32,
    word: String,
    status: u16,
    took: Duration,
}

pub(super) fn send(args: &SendArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let signer = signer(&args.kind, typed_secret(args.sample.secret.as_deref())?.as_deref(), file, kinds)?;
    let url = signer.url_or(args.sample.url.as_deref());
    let requests = requests(args, &signer, &url)?;
    let wants_401 = args.bad_signature || (args.stale && signer.provider.spec().has_signed_time());
    let to = Target { method: signer.provider.spec().method, url };
    let responses = block_on(send_all(to, requests, args.concurrency))?;
    let wrong_n = if wants_401 {
        responses.iter().filter(|one| one.status != 401).count()
    } else {
        unexpected(&responses)
    };
    report(&responses, args.json);
    if wrong_n > 0 {
        complain(format!("hooklatch: {wrong_n} of {} answers are not the expected ones", responses.len()));
    }
    Ok(if wrong_n == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Counts the unexpected answers: of each event one copy is new, all others are duplicates.
fn unexpected(responses: &[Response]) -> usize {
    let mut latched = BTreeSet::new();
    // Some senders need another status of success than 200.
    let mut is_right = |one: &Response| match one.word.split_once(' ').filter(|_| one.status / 100 == 2) {
        Some((_, "accepted" | "superseded")) => latched.insert(one.event_n),
        Some((_, "duplicate")) => true,
        _ => false,
    };
    let wrong: Vec<&Response> = responses.iter().filter(|one| !is_right(one)).collect();
    let wrong_events: BTreeSet<u32> = wrong.iter().map(|one| one.event_n).collect();
    // An event of which every copy is a duplicate was latched by no request of this run.
    let events = responses.iter().map(|one| one.event_n).collect::<BTreeSet<u32>>();
    let missing_n =
        events.iter().filter(|event| !latched.contains(event) && !wrong_events.contains(event)).count();
    wrong.len() + missing_n
}

fn requests(args: &SendArgs, signer: &Signer<'_>, url: &str) -> anyhow::Result<Vec<EventCopy>> {
    let chosen = signer.chosen(&args.sample, args.event_type.as_deref())?;
    let now_s = Clock::system().now_ms() / 1_000 - if args.stale { STALE_S } else { 0 };
    let mut copies = Vec::new();
    for event_n in 0..args.count {
        let id = fresh_id();
        let body = chosen.body(&id, now_s);
        let at = SignAt { now_s, url: url.to_owned(), id, event_type: chosen.event_type.to_owned() };
        let mut request = signer.provider.sign(&body, &at)?;
        if args.bad_signature {
            tamper(&mut request.body);
        }
        for _ in 0..args.duplicate {
            copies.push(EventCopy { event_n, signed: request.clone() });
        }
        copies.push(EventCopy { event_n, signed: request });
    }
    if args.reorder {
        fastrand::shuffle(&mut copies);
    }
    Ok(copies)
}

async fn send_all(to: Target, requests: Vec<EventCopy>, concurrency: u32) -> anyhow::Result<Vec<Response>> {
    let client = hooklatch_outbox::http_client().context("could not make an HTTP client")?;
    needs_test_server(&client, &to.url).await?;
    let slots = Arc::new(Semaphore::new(concurrency as usize));
    let mut running = JoinSet::new();
    let (all_n, started) = (requests.len(), Instant::now());
    let mut reported_at = started;
    let mut responses = Vec::with_capacity(all_n);
    for copy in requests {
        let permit = Arc::clone(&slots).acquire_owned().await?;
        let (client, to) = (client.clone(), to.clone());
        running.spawn(async move {
            let one = send_one(&client, &to, copy).await;
            drop(permit);
            one
        });
        while let Some(one) = running.try_join_next() {
            responses.push(one??);
        }
        if reported_at.elapsed() > Duration::from_secs(1) {
            reported_at = Instant::now();
            complain(format!("{} of {all_n} answered", responses.len()));
        }
    }
    while let Some(one) = running.join_next().await {
        responses.push(one??);
    }
    Ok(responses)
}

async fn send_one(
    client: &reqwest::Client,
    to: &Target,
    EventCopy { event_n, signed }: EventCopy,
) -> anyhow::Result<Response> {
    let started = Instant::now();
    let request = match to.method {
        EventMethod::Post => client.post(&to.url).body(signed.body.clone()),
        EventMethod::Get => client.get(signed.url_with_query(&to.url)),
    };
    let mut request = request.timeout(Duration::from_secs(30));
    for (name, value) in &signed.headers {
        request = request.header(name, value);
    }
    let response = request.send().await.with_context(|| format!("no answer from {}", to.url))?;
    let status = response.status().as_u16();
    let outcome = response.headers().get("hooklatch-outcome").and_then(|value| value.to_str().ok());
    let word = outcome.map_or_else(|| status.to_string(), |outcome| format!("{status} {outcome}"));
    Ok(Response { event_n, word, status, took: started.elapsed() })
}

fn report(responses: &[Response], is_json: bool) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut took_ms: Vec<f64> = Vec::with_capacity(responses.len());
    for one in responses {
        *counts.entry(&one.word).or_default() += 1;
        took_ms.push(one.took.as_secs_f64() * 1_000.0);
    }
    took_ms.sort_by(f64::total_cmp);
    let at = |share: usize| took_ms.get((took_ms.len() * share / 100).min(took_ms.len().saturating_sub(1)));
    let (p50, p99) = (at(50).copied().unwrap_or(0.0), at(99).copied().unwrap_or(0.0));
    if is_json {
        say(serde_json::json!({ "answers": counts, "p50_ms": p50, "p99_ms": p99 }));
        return;
    }
    for (word, n) in counts {
        say(format!("{n:>8}  {word}"));
    }
    say(format!("latency p50 {p50:.1} ms, p99 {p99:.1} ms"));
}

#[derive(Args)]
pub(super) struct TestEvent {
    /// Name of the provider.
    provider: String,
    /// Event type of the sample. Default: the kind's first. With --body: the type, for kinds that have it in a header.
    event_type: Option<String>,
    /// File with the body, instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Dispatch the event. Its calls go to the real destinations with the header `Hooklatch-Synthetic: true`; a
    /// destination that ignores the header acts as for a real event.
    #[arg(long)]
    route: bool,
    #[command(flatten)]
    why: WhyArgs,
}

impl ServerCommand for TestEvent {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        let body = self.body.as_deref().map(body_of_file).transpose()?.map(String::from_utf8);
        let body = body.transpose().context("--body: the file is no UTF-8 text")?;
        if let (Some(wanted), None) = (&self.event_type, &body) {
            let found: ApiAnswer<ProviderView> = remote.api.get(&["providers", &self.provider], &[])?;
            let samples = found.view.samples;
            if !samples.contains(wanted) {
                let what = format!("kind `{}` has no sample of", found.view.kind);
                return Err(Usage(unknown(&what, wanted, samples.iter().map(String::as_str))).into());
            }
        }
        if self.route {
            complain("--route: real destinations get its calls, each with `Hooklatch-Synthetic: true`");
        }
        let (event_type, reason) = (self.event_type.clone(), self.why.reason.clone());
        let order = TestEventOrder { event_type, body, route: self.route, reason };
        let path = ["providers", &self.provider, "test-events"];
        let made: ApiAnswer<TestEventView> = remote.order(&path, &order, &self.why)?;
        remote.print(&made, |TestEventView { event_ids, provider, event_type, route, .. }, _| {
            let end = if *route { "it is dispatched" } else { "nothing follows from it" };
            let line = |id: &String| format!("{id}: a test event of {provider} ({event_type}); {end}");
            let lines: Vec<Shown> = event_ids.iter().map(|id| Shown::text(line(id))).collect();
            lines.iter().map(Shown::as_str).collect::<Vec<_>>().join("\n")
        });
        if !remote.screen.is_json {
            complain(format!("`hooklatch events show {} ID` shows what became of it", self.provider));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Longest time that the server has to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Refuses a server that does not answer `Hooklatch-Test: true` at the address of its provider. The check sends a
/// request without an event.
async fn needs_test_server(client: &reqwest::Client, url: &str) -> anyhow::Result<()> {
    let answer = client.head(url).timeout(ANSWER_WITHIN).send().await;
    let answer = answer.map_err(|error| {
        anyhow::Error::from(error).context(format!(
            "no answer from {url}, so nothing was sent: it is not known to be a test server. --url names another one, such as \
             http://127.0.0.1:8080"
        ))
    })?;
    let word = answer.headers().get("hooklatch-test").and_then(|value| value.to_str().ok());
    anyhow::ensure!(
        word == Some("true"),
        "{url} does not say that it is a test server, so nothing was sent: fake events with a real signature would be \
         acted upon like real ones. Send to `hooklatch serve --dev`, or to a server with `test = true` in [server]; for a \
         server that has real events, `hooklatch test-event` makes one that is marked and, by default, calls no destination"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::types::IncomingEvent;
    use hooklatch_receive::providers::builtin;
    use hooklatch_verify::{self as verify, Verified};

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

    #[test]
    fn one_copy_of_each_event_is_new_and_the_others_are_duplicates() {
        #[track_caller]
        fn check(words: &[(u32, &str)], want: usize) {
            let response = |(event_n, word): &(u32, &str)| Response {
                event_n: *event_n,
                word: (*word).to_owned(),
                status: word.get(..3).and_then(|status| status.parse().ok()).unwrap_or_default(),
                took: Duration::ZERO,
            };
            assert_eq!(unexpected(&words.iter().map(response).collect::<Vec<_>>()), want, "{words:?}");
        }
        check(&[], 0);
        check(&[(0, "200 accepted"), (0, "200 duplicate"), (1, "200 accepted")], 0);
        check(&[(0, "200 duplicate"), (0, "200 accepted")], 0);
        check(&[(0, "200 accepted"), (0, "200 accepted")], 1);
        check(&[(0, "200 duplicate")], 1);
        check(&[(0, "200 accepted"), (0, "503")], 1);
        check(&[(0, "204 accepted"), (0, "204 duplicate"), (1, "202 accepted")], 0);
        check(&[(0, "204 unreadable")], 1);
        check(&[(0, "503")], 1);
    }

    /// Kinds whose samples make no test event: only their sender can write what is to be parsed.
    const NONE_OF: [&str; 1] = ["apple_app_store"];
    /// Further ones, of which only the owner of the secret can write it.
    const SIGNED_ALONE: [&str; 4] = ["adyen", "braintree", "redsys", "wechat_pay"];

    #[test]
    fn every_kind_makes_test_events_of_its_samples_with_ids_that_no_sender_has() {
        let keys = DevKeys::parse(&DevKeys::generate().expect("keys")).expect("readable");
        let id = "0b5e".to_owned();
        let (mut none_of, mut signed_alone) = (Vec::new(), Vec::new());
        for kind in hooklatch_receive::providers::builtin() {
            let Ok(provider) = kind.dev(&keys) else { continue };
            for (event_type, sample) in kind.sample_list() {
                let body = filled_sample(sample, "123456789012345test", 1_700_000_000);
                let at = SignAt {
                    now_s: 1_700_000_000,
                    url: provider.url().to_owned(),
                    id: id.clone(),
                    event_type: event_type.to_owned(),
                };
                let events = provider.test_events(body.as_bytes(), &at, 100).expect("a request");
                let is_none = |events: &[IncomingEvent]| {
                    events.is_empty() || events.iter().any(|event| event.unreadable.is_some())
                };
                // Where a key of the sender's is needed to sign, nothing is signed.
                let unsigned = verify::unsigned(provider.spec(), body.as_bytes(), &at).request(&at);
                let unsigned = Verified::by_operator(unsigned.expect("a request"), &id);
                let unsigned = provider.read_at_most(&unsigned, 100);
                if is_none(&events) {
                    none_of.push(kind.kind().to_owned());
                } else if is_none(&unsigned) {
                    signed_alone.push(kind.kind().to_owned());
                }
                for event in &events {
                    assert!(event.key.is_synthetic() && event.identity == "operator/1", "{}", kind.kind());
                    assert!(event.replay_key.is_none() && event.window_ms.is_none(), "{}", kind.kind());
                }
            }
        }
        for list in [&mut none_of, &mut signed_alone] {
            list.dedup();
        }
        assert_eq!(
            (none_of, signed_alone),
            (NONE_OF.map(str::to_owned).to_vec(), SIGNED_ALONE.map(str::to_owned).to_vec())
        );
    }
}
