//! The sample events beside a kind, each signed once to see whether it would be believed and read.

use std::path::{Path, PathBuf};

use super::files::{problem, text_of};
use crate::provider::{Provider, filled_sample};
use hooklatch_core::config::ConfigProblem;
use hooklatch_core::types::IncomingEvent;
use hooklatch_verify::{DevKeys, SignAt};

/// Most samples of one kind.
const SAMPLES_N_MAX: usize = 100;
/// Time at which samples are signed to see whether they are believed. Unix seconds; any time would do.
const SAMPLE_NOW_S: i64 = 1_767_225_600;

/// The kind's sample events, each signed once to see whether it would be believed and read.
pub(crate) fn samples(folder: &Path, kind: &Provider) -> (Vec<(String, String)>, Vec<ConfigProblem>) {
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => return (Vec::new(), Vec::new()),
    };
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    if files.len() > SAMPLES_N_MAX {
        let why = format!("has {} samples, at most {SAMPLES_N_MAX} are read", files.len());
        return (Vec::new(), vec![problem(folder, "", why, "take some out")]);
    }
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        let text = match text_of(&file) {
            Ok(text) => text.unwrap_or_default(),
            Err(one) => {
                problems.push(one);
                continue;
            }
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match event_type(kind, &stem, &text) {
            Ok(event_type) => samples.push((event_type, text)),
            Err(why) => {
                let remedy = "correct the sample, or where provider.toml looks for the id and the type";
                problems.push(problem(&file, "", why, remedy));
            }
        }
    }
    (samples, problems)
}

/// Signs a sample with the kind's published secret, or with `keys`, and reads its events as admission would; `None` where
/// only the sender can sign.
pub fn sample_events(
    kind: &Provider,
    event_type: &str,
    sample: &str,
    keys: &DevKeys,
) -> Option<Result<Vec<IncomingEvent>, String>> {
    let provider = kind.dev(keys).ok()?;
    let body = filled_sample(sample, "1", SAMPLE_NOW_S);
    let at = SignAt {
        now_s: SAMPLE_NOW_S,
        url: provider.url().to_owned(),
        id: "1".to_owned(),
        event_type: event_type.to_owned(),
    };
    let signed = provider.sign(body.as_bytes(), &at).ok()?;
    let request = signed.request(&at).map_err(|why| why.to_string());
    let verified = request.and_then(|request| {
        let unbelieved = |why| format!("signed as provider.toml says it is not believed: {why}");
        provider.verify(request).map_err(unbelieved)
    });
    Some(verified.map(|verified| provider.read(&verified)))
}

/// The type that a signed sample turns out to have; the file's name where only the sender can sign.
fn event_type(kind: &Provider, stem: &str, sample: &str) -> Result<String, String> {
    // Keys that only the sender has are not made for a look at samples.
    let Some(events) = sample_events(kind, stem, sample, &DevKeys::default()) else {
        return Ok(stem.to_owned());
    };
    match events?.first() {
        Some(event) if event.unreadable.is_none() => match event.unidentified() {
            None => Ok(event.event_type.clone()),
            Some(why) => Err(format!("has nothing that tells it from others: {why}")),
        },
        Some(event) => Err(format!("cannot be read: {}", event.unreadable.as_deref().unwrap_or_default())),
        None => Err("has no event in it".to_owned()),
    }
}
