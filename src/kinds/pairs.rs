//! The pairs of requests beside a kind, judged: does it tell two events apart, and know a copy?

use crate::config::{ConfigProblem, KindsFolder};
use crate::pairs::Pair;
use crate::provider::Provider;
use crate::spec::Spec;
use crate::verify::DevKeys;

use super::{FOLDERS_N_MAX, names, problem, text_of};

/// Judges the `identity.json` of every kind in `folder` that has one: how many pairs were judged, and what differs.
/// Those of `broken` kinds are left alone: what is wrong with them is told already.
pub(crate) fn judge_pairs(
    folder: &KindsFolder,
    broken: &[String],
    kinds: &[Provider],
) -> (usize, Vec<ConfigProblem>) {
    let (mut judged_n, mut problems) = (0, Vec::new());
    let names = names(&folder.path).unwrap_or_default();
    for name in names.into_iter().take(FOLDERS_N_MAX).filter(|name| !broken.contains(name)) {
        let file = folder.path.join(&name).join("identity.json");
        let Some(kind) = kinds.iter().find(|kind| kind.kind() == name) else { continue };
        let judged = match text_of(&file) {
            Ok(None) => continue,
            Ok(Some(text)) => judge(&text, kind),
            Err(one) => {
                problems.push(one);
                continue;
            }
        };
        match judged {
            Ok(wrong) => {
                judged_n += wrong.0;
                let remedy =
                    "correct the identity in provider.toml, or the pair if the sender never sends this";
                problems.extend(wrong.1.into_iter().map(|(what, why)| problem(&file, &what, why, remedy)));
            }
            Err(why) => {
                let remedy = "write a list of pairs as in providers/README.md";
                problems.push(problem(&file, "", why, remedy));
            }
        }
    }
    (judged_n, problems)
}

/// How many pairs there are, and which of them are judged otherwise than they say: what, and why.
type Judged = (usize, Vec<(String, String)>);

fn judge(text: &str, kind: &Provider) -> Result<Judged, String> {
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
