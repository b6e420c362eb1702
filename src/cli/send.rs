//! `send`: signed samples to a test server, and its answers; and `test-event`: an event that an operator creates on a
//! server that has real ones.

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
use super::output::Shown;
use super::remote::{Remote, ServerCommand, WhyArgs};
use super::shared::{Usage, block_on, complain, say, typed_secret, unknown};
use super::sign::{Signer, body_of_file, fresh_id, signer};
use super::test_server::needs_test_server;
use hooklatch_contract::{ProviderView, TestEventOrder, TestEventView};
use hooklatch_core::types::Clock;
use hooklatch_operator::load::Kinds;
use hooklatch_receive::provider::{filled_sample, tamper};
use hooklatch_verify::spec::EventMethod;
use hooklatch_verify::{SignAt, Signed};

/// Age that `--stale` gives a request. Seconds; older than any kind's tolerance.
const STALE_S: i64 = 3_600;

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct SendArgs {
    /// The provider kind, or a provider of the configuration.
    kind: String,
    /// The sample's event type; the kind's first one by default.
    event_type: Option<String>,
    /// Which of the samples of that type, where there are several: `hooklatch providers KIND` counts them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1_000), conflicts_with = "body")]
    nth: u16,
    /// Send this file's bytes instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// The whole URL, or the server alone; `server.public_url` of the configuration by default.
    #[arg(long)]
    url: Option<String>,
    /// Sign with this secret instead of the configured one. `-` reads a line of standard input: what stands on a
    /// command line, everybody on the machine can read.
    #[arg(long)]
    secret: Option<String>,
    /// Number of events to send, 1 to 1,000,000.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Number of requests under way at once, 1 to 1,000.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    concurrency: u32,
    /// Send each event this many times more.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    duplicate: u32,
    /// Send the requests in random order.
    #[arg(long)]
    reorder: bool,
    /// Sign an hour ago; 401 is then the right answer of a kind that signs a time.
    #[arg(long)]
    stale: bool,
    /// Change one byte after signing; 401 is then the right answer.
    #[arg(long)]
    bad_signature: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// One request, and the event of which it is a copy.
struct Copy {
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
    let signer = signer(&args.kind, typed_secret(args.secret.as_deref())?.as_deref(), file, kinds)?;
    let url = signer.url_or(args.url.as_deref());
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

fn requests(args: &SendArgs, signer: &Signer<'_>, url: &str) -> anyhow::Result<Vec<Copy>> {
    let own = args.body.as_deref().map(body_of_file).transpose()?;
    let (event_type, sample) = match own {
        Some(_) => (args.event_type.as_deref().unwrap_or("sample"), ""),
        None => signer.sample(args.event_type.as_deref(), args.nth.into())?,
    };
    let now_s = Clock::system().now_ms() / 1_000 - if args.stale { STALE_S } else { 0 };
    let mut copies = Vec::new();
    for event_n in 0..args.count {
        let id = fresh_id();
        let body = own.clone().unwrap_or_else(|| filled_sample(sample, &id, now_s).into_bytes());
        let at = SignAt { now_s, url: url.to_owned(), id, event_type: event_type.to_owned() };
        let mut request = signer.provider.sign(&body, &at)?;
        if args.bad_signature {
            tamper(&mut request.body);
        }
        for _ in 0..args.duplicate {
            copies.push(Copy { event_n, signed: request.clone() });
        }
        copies.push(Copy { event_n, signed: request });
    }
    if args.reorder {
        fastrand::shuffle(&mut copies);
    }
    Ok(copies)
}

async fn send_all(to: Target, requests: Vec<Copy>, concurrency: u32) -> anyhow::Result<Vec<Response>> {
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
    Copy { event_n, signed }: Copy,
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
    /// Type of the sample; the kind's first one by default. With --body the type of kinds that carry it in a header.
    event_type: Option<String>,
    /// Take this file's text as the body instead of a sample; `-` is standard input.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Dispatch it. Its calls go to the real destinations, each with `Hooklatch-Synthetic: true`: a destination that does
    /// not look at this header does what it does for a real event. Without it nothing follows from the event.
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

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::types::IncomingEvent;
    use hooklatch_receive::provider::Kind;
    use hooklatch_verify::{self as verify, DevKeys, Verified};

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
