//! What stands between a command or a user's `main.rs` and a running app: which kinds there are, and the
//! configuration read with what they know about themselves.

use std::path::Path;

use crate::config::{
    self, Config, ConfigProblem, ConfigSource, DevKind, Environment, KindFacts, Secret, SecretsNeed,
    SettingFacts, SettingShape, Settings,
};
use crate::provider::{Provider, dev_secret};
use crate::spec::{SettingForm, SettingSpec, Spec};
use crate::types::Name;

/// The built-in kinds, with those of `own` added or put in their place.
pub(crate) fn kinds(own: Vec<Provider>) -> Vec<Provider> {
    let mut all = crate::providers::builtin();
    all.retain(|kind| own.iter().all(|one| one.kind() != kind.kind()));
    all.extend(own);
    all
}

/// Reads the configuration and checks all of it, the strength of secrets included.
pub(crate) fn load(
    file: Option<&Path>,
    is_dev: bool,
    kinds: &[Provider],
) -> Result<Config, Vec<ConfigProblem>> {
    let (settings, facts) = settings(file, is_dev, kinds);
    config::load_judged(&settings, &facts, &|name, provider| {
        let kind = kinds.iter().find(|kind| kind.kind() == provider.kind.as_str());
        kind.and_then(|kind| kind.activate(name, provider, "").err()).unwrap_or_default()
    })
}

/// As [`load`], for tools that only sign or judge: they may do so with a secret that `serve` refuses.
pub(crate) fn load_for_tools(file: Option<&Path>, kinds: &[Provider]) -> Result<Config, Vec<ConfigProblem>> {
    let (settings, facts) = settings(file, false, kinds);
    config::load(&settings, &facts)
}

fn settings(file: Option<&Path>, is_dev: bool, kinds: &[Provider]) -> (Settings, Vec<KindFacts>) {
    let mut facts = Vec::new();
    let mut dev = Vec::new();
    for kind in kinds {
        // A kind with a broken spec is reported when the app is built; here it is simply not known.
        let (Ok(spec), Ok(name)) = (kind.spec(), Name::parse(kind.kind())) else { continue };
        dev.extend(dev_kind(&name, spec));
        facts.push(KindFacts {
            kind: name,
            horizon_h: spec.horizon_h,
            has_signed_time: spec.has_signed_time(),
            has_signed_url: spec.has_signed_url(),
            secrets: match (spec.signature.may_be_unsigned, spec.needs_secrets()) {
                (true, _) => SecretsNeed::OrUnverified,
                (false, true) => SecretsNeed::Needed,
                (false, false) => SecretsNeed::Optional,
            },
            settings: spec.setting.iter().map(setting_facts).collect(),
        });
    }
    let settings = Settings {
        source: ConfigSource { file: file.map(Path::to_path_buf) },
        env: Environment::of_process(),
        dev: is_dev.then_some(dev),
    };
    (settings, facts)
}

fn setting_facts(setting: &SettingSpec) -> SettingFacts {
    SettingFacts {
        name: setting.name.clone(),
        shape: match setting.form {
            SettingForm::Text => SettingShape::Text,
            SettingForm::List => SettingShape::List,
            SettingForm::Named => SettingShape::Named,
        },
        is_needed: setting.needed,
        hint: setting.hint.clone(),
    }
}

/// What `serve --dev` says about a kind; `None` where only the sender's own keys would do.
fn dev_kind(name: &Name, spec: &Spec) -> Option<DevKind> {
    let is_published = |setting: &SettingSpec| setting.dev.is_some() && setting.form != SettingForm::Named;
    let keys = spec.signature.keys.as_ref();
    let needed = spec.setting.iter().filter(|setting| setting.needed || Some(&setting.name) == keys);
    if !needed.into_iter().all(is_published) {
        return None;
    }
    let settings = spec.setting.iter().filter(|setting| is_published(setting));
    Some(DevKind {
        kind: name.clone(),
        secret: spec.takes_secrets().then(|| Secret::new(dev_secret(spec))),
        settings: settings.filter_map(|setting| Some((setting.name.clone(), setting.dev.clone()?))).collect(),
        is_unsigned: !spec.takes_secrets() && spec.signature.may_be_unsigned,
    })
}

/// As [`load`], with every problem in the error's text.
pub(crate) fn loaded(file: Option<&Path>, is_dev: bool, kinds: &[Provider]) -> anyhow::Result<Config> {
    load(file, is_dev, kinds).map_err(|problems| unusable(&problems))
}

pub(crate) fn unusable(problems: &[ConfigProblem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
}
