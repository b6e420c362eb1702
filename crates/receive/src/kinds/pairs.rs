//! The pairs of requests beside a kind, judged: does it distinguish two events, and know a copy?

use std::path::PathBuf;

use crate::pairs::Pair;
use crate::provider::Provider;
use hooklatch_core::config::{ConfigProblem, KindsFolder};
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::Spec;

use super::files::{beside, names, problem};

/// Judges the `identity.json` of every kind in `folder` that has one, but for `broken` ones: how many pairs were
/// judged, and what differs.
pub fn judge_pairs(
    folder: &KindsFolder,
    broken: &[String],
    kinds: &[Provider],
) -> (usize, Vec<ConfigProblem>) {
    let (mut judged_n, mut problems) = (0, Vec::new());
    for (name, file, text) in beside(folder, broken, "identity.json") {
        let Some(kind) = kinds.iter().find(|kind| kind.kind() == name) else { continue };
        match text.map(|text| judge(&text, kind)) {
            Ok(Ok((pairs_n, wrong))) => {
                judged_n += pairs_n;
                let remedy =
                    "correct the identity in provider.toml, or the pair if the sender never sends this";
                problems.extend(wrong.into_iter().map(|(what, why)| problem(&file, &what, why, remedy)));
            }
            Ok(Err(why)) => {
                let remedy = "write a list of pairs as in providers/README.md";
                problems.push(problem(&file, "", why, remedy));
            }
            Err(one) => problems.push(one),
        }
    }
    (judged_n, problems)
}

/// A warning for each kind in `folder` without an `identity.json`, but for `broken` ones.
pub fn without_pairs(folder: &KindsFolder, broken: &[String]) -> Vec<String> {
    let names = names(&folder.path).unwrap_or_default();
    let files = names.into_iter().filter(|name| !broken.contains(name)).map(|name| folder.path.join(name));
    let missing = files.map(|kind| kind.join("identity.json")).filter(|file| !file.exists());
    let warning = |file: PathBuf| {
        format!(
            "{}: is missing: nothing shows which requests of the kind are copies of one event; write two events and a \
             redelivery into it, as providers/README.md says",
            file.display()
        )
    };
    missing.map(warning).collect()
}

/// The number of pairs, and those of them that are judged otherwise than they say: what, and why.
type JudgedPairs = (usize, Vec<(String, String)>);

fn judge(text: &str, kind: &Provider) -> Result<JudgedPairs, String> {
    let pairs = Pair::parse_all(text).map_err(|why| format!("is not a list of pairs: {why}"))?;
    let keys = if kind.spec().is_ok_and(Spec::needs_generated_keys) {
        let made = DevKeys::generate().and_then(|text| DevKeys::parse(&text));
        made.ok_or("cannot be judged: no development keys could be made")?
    } else {
        DevKeys::default()
    };
    let provider = kind.dev(&keys)?;
    let wrong = pairs.iter().filter_map(|pair| match pair.judge(kind, &provider) {
        Ok(met) if met == pair.expect => None,
        Ok(met) => Some((pair.what.clone(), format!("is to be `{}`, but is `{met}`", pair.expect))),
        Err(why) => Some((pair.what.clone(), why)),
    });
    Ok((pairs.len(), wrong.collect()))
}
