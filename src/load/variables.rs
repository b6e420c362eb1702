//! Variables of the environment that look as if they should override a key, and do not.

use std::collections::BTreeMap;

use crate::config::{ConfigProblem, ENV_PREFIX, EffectiveSetting, Environment};

/// Warns of variables with one underscore where two belong, such as `HOOKLATCH_SERVER_LISTEN`. `asked` has the keys there
/// are; a variable that `settings` take a secret from has the name that somebody gave it.
pub(super) fn misspelt<T>(
    env: &Environment,
    asked: &BTreeMap<String, T>,
    settings: &[EffectiveSetting],
) -> Vec<ConfigProblem> {
    let is_secret = |name: &str| {
        let place = format!("variable {name}");
        settings.iter().any(|one| one.secret_in.as_ref() == Some(&place))
    };
    let meant = |name: &str| {
        let words = name.to_ascii_lowercase().replace("__", "_");
        let words = words.strip_prefix("hooklatch_").filter(|_| !name.starts_with(ENV_PREFIX))?;
        let named = ["providers", "destinations"]
            .into_iter()
            .find(|section| words.starts_with(&format!("{section}_")));
        let key = asked.keys().find(|key| key.contains('.') && key.replace('.', "_") == words);
        let meant = key.map(|key| key.replace('.', "__"));
        Some(meant.or_else(|| Some(format!("{}__NAME__KEY", named?)))?.to_uppercase())
    };
    let problem = |name: &String| {
        let meant = meant(name).filter(|_| !is_secret(name))?;
        Some(ConfigProblem {
            source: name.clone(),
            key: String::new(),
            value: None,
            why: "is a variable that nothing reads".to_owned(),
            remedy: format!("write two underscores between the parts of a key: {ENV_PREFIX}{meant}"),
        })
    };
    env.all().keys().filter_map(problem).collect()
}
