//! `check`: all that is wrong with the configuration, and what it does with the sample events of its kinds.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::retention;
use super::shared::{complain, say};
use crate::figures::plural;
use crate::kinds::{judge_pairs, judge_vectors, without_pairs};
use crate::load::{Kinds, SampleCall, SampleOutcome, SampleResult, Settings, load, prove};

/// Everything that is wrong, or that nothing is; the signed requests beside kinds of a folder included.
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
            warnings.extend(crate::load::warnings(&config, kinds));
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
        let ids = ids.as_ref().map(retention::as_json);
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
        if let Some(words) = ids.as_ref().and_then(retention::in_words) {
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

/// What follows from the samples, provider by provider; types that nothing takes are one line.
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
            say(format!("  {}: {}", one.event_type, in_words(one)));
        }
        let untaken: Vec<&str> = untaken.iter().map(|one| one.event_type.as_str()).collect();
        if !untaken.is_empty() {
            say(format!("  nothing takes: {}", untaken.join(", ")));
        }
    }
}

fn in_words(sample: &SampleResult) -> String {
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
