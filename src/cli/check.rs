//! `check`: all that is wrong with the configuration.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use super::retention;
use super::shared::{complain, say};
use crate::kinds::{judge_pairs, judge_vectors};
use crate::load::{Kinds, Loaded, Settings, load};
use crate::seal::SealKey;

/// Everything that is wrong, or that nothing is; the signed requests beside kinds of a folder included.
pub(super) fn check(file: Option<&Path>, is_json: bool, kinds: &Kinds) -> ExitCode {
    let (mut warnings, mut ids, mut encryption) = (Vec::new(), None, None);
    let (mut problems, mut summary) = match load(&Settings::of_process(file), kinds) {
        Err(problems) => (problems, String::new()),
        Ok(Loaded { config, .. }) => {
            warnings.extend(config.warnings.iter().map(ToString::to_string));
            warnings.extend(crate::load::warnings(&config, kinds));
            ids = Some(config.retention.clone());
            encryption = Some(config.encryption.clone());
            let (providers_n, destinations_n) = (config.providers.len(), config.destinations.len());
            (
                Vec::new(),
                format!("the configuration is good: {providers_n} providers, {destinations_n} destinations"),
            )
        }
    };
    if let Some(folder) = &kinds.folder {
        let (vectors_n, more) = judge_vectors(folder, &kinds.broken, kinds);
        problems.extend(more);
        let (pairs_n, more) = judge_pairs(folder, &kinds.broken, kinds);
        problems.extend(more);
        summary = format!(
            "{summary}; kinds of {}: {vectors_n} vectors and {pairs_n} pairs are judged as they say",
            folder.path.display()
        );
    }
    if is_json {
        let ids = ids.as_ref().map(retention::as_json);
        let key_ids: Option<Vec<&str>> =
            encryption.as_ref().map(|config| config.keys.iter().map(SealKey::id).collect());
        say(json!({
            "ok": problems.is_empty(), "problems": problems, "warnings": warnings, "ids": ids,
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
    } else {
        for problem in &problems {
            complain(problem);
        }
        complain(format!("{} problems", problems.len()));
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
