//! `check`: all problems of the configuration, and the results of the sample events of its kinds; how long ids are
//! remembered, which key decides that, and how long senders retry.
//!
//! `explain`: why a saved request is or is not verified, step by step. It never shows the expected signature. `vectors`
//! checks files of signed requests, each at its own time with its own secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::remote::{PagingArgs, ReachArgs, Remote};
use super::shared::{complain, find_kind, report_problems, say, typed_secret};
use super::sign::signer;
use hooklatch_contract::{ExplainVerdict, RejectedView};
use hooklatch_core::config::RetentionConfig;
use hooklatch_core::figures::plural;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, SampleCall, SampleOutcome, SampleResult, Settings, load, prove};
use hooklatch_receive::kind::{judge_pairs, judge_vectors, without_pairs};
use hooklatch_receive::provider::ActiveProvider;
use hooklatch_receive::vectors::{Judged, Vector, judge, judge_one};
use hooklatch_receive::{SavedRequest, judged, parse_saved};
use hooklatch_verify::RawRequest;
use hooklatch_verify::spec::{Resend, Spec};

/// Prints all problems, or that there are none; includes the vectors beside kinds of a folder.
pub(super) fn check(file: Option<&Path>, is_json: bool, kinds: &Kinds) -> ExitCode {
    let (mut warnings, mut ids, mut encryption) = (Vec::new(), None, None);
    let mut samples = Vec::new();
    let settings = Settings::of_process(file);
    let (mut problems, mut summary) = match load(&settings, kinds) {
        Err(problems) => (problems, String::new()),
        Ok(loaded) => {
            let proof = prove(&settings, &loaded, kinds);
            let config = loaded.config;
            warnings.extend(config.warnings.iter().chain(&proof.warnings).map(ToString::to_string));
            warnings.extend(hooklatch_operator::load::warnings(&config, kinds));
            if let Some(folder) = &kinds.folder {
                warnings.extend(without_pairs(folder, &kinds.broken));
            }
            samples = proof.samples;
            ids = Some(config.retention.clone());
            encryption = Some(config.encryption.clone());
            let found = match config.providers.len() {
                0 => "the configuration has no mistake, and receives nothing".to_owned(),
                n => format!("the configuration is good: {}", plural(n as u64, "provider")),
            };
            let destinations = plural(config.destinations.len() as u64, "destination");
            let warned = match warnings.len() {
                0 => String::new(),
                n => format!("; {}", plural(n as u64, "warning")),
            };
            (Vec::new(), format!("{found}, {destinations}{warned}"))
        }
    };
    if let Some(folder) = &kinds.folder {
        let (vectors_n, more) = judge_vectors(folder, &kinds.broken, kinds);
        problems.extend(more);
        let (pairs_n, more) = judge_pairs(folder, &kinds.broken, kinds);
        problems.extend(more);
        summary = format!(
            "{summary}; kinds of {}: {} and {} are judged as they say",
            folder.path.display(),
            plural(vectors_n as u64, "vector"),
            plural(pairs_n as u64, "pair")
        );
    }
    if is_json {
        let ids = ids.as_ref().map(retention_json);
        let key_ids: Option<Vec<&str>> =
            encryption.as_ref().map(|config| config.keys.iter().map(|one| one.key.id()).collect());
        say(json!({
            "ok": problems.is_empty(), "problems": problems, "warnings": warnings, "samples": samples, "ids": ids,
            "encryption_key_ids": key_ids,
        }));
    } else if problems.is_empty() {
        for warning in &warnings {
            complain(format!("warning: {warning}"));
        }
        say(summary);
        if let Some(config) = &encryption {
            say(config.in_words());
        }
        if let Some(words) = ids.as_ref().and_then(retention_in_words) {
            say(words);
        }
        say_samples(&samples);
    } else {
        for problem in &problems {
            complain(problem);
        }
        complain(plural(problems.len() as u64, "problem"));
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the results of the samples by provider; types without a handler or route are one line.
fn say_samples(samples: &[SampleResult]) {
    let mut providers: BTreeMap<&str, Vec<&SampleResult>> = BTreeMap::new();
    for sample in samples {
        providers.entry(sample.provider.as_str()).or_default().push(sample);
    }
    for (provider, samples) in providers {
        say(format!("samples of {provider}:"));
        let (untaken, taken): (Vec<_>, Vec<_>) =
            samples.into_iter().partition(|one| one.outcome == SampleOutcome::Untaken);
        for one in taken {
            say(format!("  {}: {}", one.event_type, sample_in_words(one)));
        }
        let untaken: Vec<&str> = untaken.iter().map(|one| one.event_type.as_str()).collect();
        if !untaken.is_empty() {
            say(format!("  nothing takes: {}", untaken.join(", ")));
        }
    }
}

fn sample_in_words(sample: &SampleResult) -> String {
    let call = |call: &SampleCall| match &call.lane {
        Some(lane) => format!("{} in lane {lane}", call.destination),
        None => call.destination.clone(),
    };
    let calls: Vec<String> = sample.calls.iter().map(call).collect();
    let why = sample.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
    match sample.outcome {
        SampleOutcome::Done if calls.is_empty() => format!("no call{why}"),
        SampleOutcome::Done => format!("calls {}{why}", calls.join(", ")),
        SampleOutcome::Ignored => format!("ignored{why}"),
        SampleOutcome::Failed => format!("would fail{why}"),
        SampleOutcome::NotRun => format!("not run{why}"),
        SampleOutcome::Untaken => "nothing takes it".to_owned(),
    }
}

/// The retention in words for people; `None` where there is no provider.
fn retention_in_words(retention: &RetentionConfig) -> Option<String> {
    let (name, days, why) = retention.deciding()?;
    Some(match retention.ids_days {
        None => format!("ids are remembered for {days} days at most, for provider `{name}`: {why}"),
        Some(set) => format!(
            "ids are remembered for {set} days, as retention.ids_days says; at least {days} are needed, for provider \
             `{name}`: {why}"
        ),
    })
}

/// The retention as JSON for programs, with every provider.
fn retention_json(retention: &RetentionConfig) -> Value {
    let providers = retention.ids_of.iter().map(|(name, kept)| {
        json!({
            "provider": name.as_str(), "days": retention.ids_days_for(name), "days_min": kept.days_min,
            "why": if retention.ids_days.is_none() { &kept.why } else { &kept.why_min },
        })
    });
    json!({ "ids_days": retention.ids_days, "providers": providers.collect::<Vec<_>>() })
}

/// How long a sender resends an event: by itself, and on request.
pub(super) fn sent_again(spec: &Spec) -> String {
    format!("{}{}", hours(spec.horizon_h), when_asked(spec))
}

/// How long a sender resends on request; the text follows the time for which it retries by itself.
pub(super) fn when_asked(spec: &Spec) -> String {
    match spec.resend_h {
        None => String::new(),
        Some(Resend::Hours(asked)) => format!("; when asked to, {}", hours(asked)),
        Some(Resend::Unbounded) => "; when asked to, without a limit".to_owned(),
    }
}

/// Renders `resend_h` as JSON: null, a number of hours, or `unbounded`.
pub(super) fn resend_json(spec: &Spec) -> Value {
    match spec.resend_h {
        None => Value::Null,
        Some(Resend::Hours(hours)) => json!(hours),
        Some(Resend::Unbounded) => json!("unbounded"),
    }
}

fn hours(hours: u32) -> String {
    if hours > 48 && hours.is_multiple_of(24) { format!("{} days", hours / 24) } else { format!("{hours} h") }
}

#[derive(Args)]
pub(super) struct ExplainArgs {
    /// File with `POST /webhooks/NAME`, headers, an empty line and the body; or with one vector as a JSON object. A
    /// first line `# now=1700000000` sets the time of verification.
    #[arg(required_unless_present = "recent")]
    file: Option<PathBuf>,
    /// List what a running server rejected, up to a second ago, instead.
    #[arg(long, conflicts_with_all = ["file", "secret"])]
    recent: bool,
    /// Name of the provider, if the path of the request does not contain it.
    #[arg(long)]
    provider: Option<String>,
    /// Verify with this secret instead of the configured ones. `-` reads a line of standard input: other users of the
    /// machine can read command lines.
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
    /// Files in the format of `providers/*/vectors.json`, or folders of them.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON object a line: id, kind, expect, verdict, step.
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

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::config::IdsKept;
    use hooklatch_core::types::Name;

    fn spec(more: &str) -> Spec {
        let text = include_str!("../../providers/stripe/provider.toml");
        let own = ["horizon_h", "resend_h", "retry_span_s"];
        let lines = text.lines().filter(|line| !own.iter().any(|key| line.starts_with(key)));
        let rest: Vec<&str> = lines.collect();
        Spec::parse(&format!("{more}\n{}", rest.join("\n"))).expect("a spec")
    }

    #[test]
    fn retry_spans_are_shown_in_their_largest_whole_unit() {
        #[track_caller]
        fn check(more: &str, words: &str, json: &Value) {
            let spec = spec(more);
            assert_eq!((sent_again(&spec).as_str(), &resend_json(&spec)), (words, json));
        }
        check("horizon_h = 48", "48 h", &Value::Null);
        check("horizon_h = 72\nresend_h = 720", "3 days; when asked to, 30 days", &json!(720));
        check("horizon_h = 73", "73 h", &Value::Null);
        let without_limit = "1 h; when asked to, without a limit";
        check("horizon_h = 1\nresend_h = \"unbounded\"", without_limit, &json!("unbounded"));
    }

    #[test]
    fn the_provider_that_needs_ids_the_longest_is_named_with_its_reason() {
        let kept = |days, days_min| IdsKept {
            days,
            why: format!("needs {days}"),
            days_min,
            why_min: format!("at least {days_min}"),
        };
        let name = |text: &str| Name::parse(text).expect("a name");
        let ids_of: BTreeMap<Name, IdsKept> =
            [(name("a"), kept(60, 30)), (name("b"), kept(400, 7))].into_iter().collect();
        let mut retention = RetentionConfig { ids_of, ..RetentionConfig::default() };
        let words = retention_in_words(&retention).expect("words");
        assert_eq!(words, "ids are remembered for 400 days at most, for provider `b`: needs 400");
        retention.ids_days = Some(90);
        let words = retention_in_words(&retention).expect("words");
        assert!(words.starts_with("ids are remembered for 90 days, as retention.ids_days says"), "{words}");
        assert!(words.ends_with("at least 30 are needed, for provider `a`: at least 30"), "{words}");
        assert_eq!(retention_json(&retention)["providers"][1]["days"], 90);
        assert_eq!(retention_in_words(&RetentionConfig::default()), None);
    }
}
