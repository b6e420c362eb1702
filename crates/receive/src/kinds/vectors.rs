//! The signed requests beside a kind, judged: does it believe what it says it believes?

use crate::provider::Provider;
use crate::vectors::judge;
use hooklatch_core::config::{ConfigProblem, KindsFolder};

use super::files::{beside, problem};

/// Judges the `vectors.json` of every kind in `folder` that has one, but for `broken` ones: how many were judged, and
/// what differs.
pub fn judge_vectors(
    folder: &KindsFolder,
    broken: &[String],
    kinds: &[Provider],
) -> (usize, Vec<ConfigProblem>) {
    let (mut judged_n, mut problems) = (0, Vec::new());
    for (name, file, text) in beside(folder, broken, "vectors.json") {
        let judged = match text.map(|text| judge(&text, kinds)) {
            Ok(Ok(judged)) => judged,
            Ok(Err(why)) => {
                let remedy = "write a list of vectors as in providers/README.md";
                problems.push(problem(&file, "", format!("is not a list of vectors: {why}"), remedy));
                continue;
            }
            Err(one) => {
                problems.push(one);
                continue;
            }
        };
        judged_n += judged.len();
        for one in judged {
            if one.kind != name {
                let why = format!("is about kind `{}`", one.kind);
                problems.push(problem(&file, &one.id, why, format!("write \"kind\": \"{name}\"")));
            } else if one.is_wrong {
                let why = format!(
                    "is to be `{}`, but is `{}` at step `{}`: {}",
                    one.expect, one.verdict, one.step, one.why
                );
                let remedy = if one.id.starts_with(&format!("{name}-own-")) {
                    format!("make it anew with `hooklatch sign {name} --vectors`, or correct provider.toml")
                } else {
                    "correct provider.toml, or the vector if the sender never sent this".to_owned()
                };
                problems.push(problem(&file, &one.id, why, remedy));
            }
        }
    }
    (judged_n, problems)
}
