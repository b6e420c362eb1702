//! What stands between a command or a user's `main.rs` and a running app: which kinds there are, and the
//! configuration read with what they know about themselves.

pub(crate) mod dev_keys;
mod warnings;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use crate::config::{
    self, Config, ConfigProblem, ConfigSource, DatabaseConfig, DevKind, Environment, KindFacts, KindsFolder,
    PoolingConfig, ProviderConfig, ResendFacts, Secret, SecretsNeed, SettingFacts, SettingShape, Settings,
};
use crate::kinds::{self, Taken};
use crate::provider::{KindError, Provider, dev_secret, dev_settings, published_mistakes};
use crate::spec::{Resend, SettingForm, SettingSpec, Spec};
use crate::store::{self, Pooling, PostgresSettings, SchemaState, Store, StoreSettings};
use crate::types::Name;
use crate::verify::DevKeys;
pub(crate) use warnings::warnings;

/// A database that was just opened.
pub(crate) struct Opened {
    /// The database.
    pub(crate) store: Store,
    /// Which versions of the schema were applied now.
    pub(crate) applied: Vec<i64>,
    /// What the schema is like.
    pub(crate) schema: SchemaState,
}

/// Opens the database and, if it `is_migrated`, brings its schema up to date; waits for a PostgreSQL that takes writes
/// as long as the configuration says. A fail-over may come between any two steps, so all of them are taken again.
pub(crate) async fn store(config: &DatabaseConfig, is_migrated: bool) -> anyhow::Result<Opened> {
    let settings = StoreSettings { url: config.url.clone(), connections_n: config.connections_n };
    let postgres = PostgresSettings {
        pooling: match config.pooling {
            PoolingConfig::Session => Pooling::Session,
            PoolingConfig::Transaction => Pooling::Transaction,
        },
        is_replicated: config.replicated,
    };
    let wait_ms = if settings.is_postgres() { config.connect_wait_ms } else { 0 };
    let opened = store::waiting(Duration::from_millis(wait_ms), async || {
        let store = Store::open_with(&settings, &postgres).await?;
        let applied = if is_migrated { store.migrate().await? } else { Vec::new() };
        let schema = store.schema_state().await?;
        Ok(Opened { store, applied, schema })
    });
    opened.await.context("could not open the database")
}

/// The kinds there are, and what is wrong with those that cannot be used.
pub(crate) struct Kinds {
    /// Those that can be used.
    pub(crate) all: Vec<Provider>,
    /// Where some of them were read, if a folder is configured.
    pub(crate) folder: Option<KindsFolder>,
    /// What is wrong with the others.
    pub(crate) problems: Vec<ConfigProblem>,
    /// Their names.
    pub(crate) broken: Vec<String>,
}

impl std::ops::Deref for Kinds {
    type Target = [Provider];

    fn deref(&self) -> &[Provider] {
        &self.all
    }
}

/// The built-in kinds, with those of the configured folder and of `own` added or put in their place.
pub(crate) fn kinds(file: Option<&Path>, own: Vec<Provider>) -> Kinds {
    let mut all = crate::providers::builtin();
    let (own, unusable): (Vec<_>, Vec<_>) = own.into_iter().partition(|kind| kind.spec().is_ok());
    all.retain(|kind| own.iter().all(|one| one.kind() != kind.kind()));
    let names = |kinds: &[Provider]| kinds.iter().map(|kind| kind.kind().to_owned()).collect::<Vec<_>>();
    let settings = Settings {
        source: ConfigSource { file: file.map(Path::to_path_buf) },
        env: Environment::of_process(),
        ..Settings::default()
    };
    let folder = config::kinds_folder(&settings);
    let taken = Taken { builtin: &names(&all), own: &names(&own) };
    let found = folder.as_ref().map(|folder| kinds::read(folder, &taken)).unwrap_or_default();
    all.extend(own);
    all.retain(|kind| found.kinds.iter().all(|one| one.kind() != kind.kind()));
    all.extend(found.kinds);
    let mut all = Kinds { all, folder, problems: found.problems, broken: found.broken };
    for (kind, error) in unusable.iter().filter_map(|kind| Some((kind, kind.spec().err()?))) {
        all.problems.push(of_program(error));
        all.broken.push(kind.kind().to_owned());
    }
    all
}

/// A mistake in a kind that the program itself brings along or asks for.
fn of_program(error: &KindError) -> ConfigProblem {
    ConfigProblem {
        source: "this program".to_owned(),
        key: String::new(),
        value: None,
        why: error.to_string(),
        remedy: String::new(),
    }
}

/// Reads the configuration and checks all of it, the strength of secrets included.
pub(crate) fn load(file: Option<&Path>, is_dev: bool, kinds: &Kinds) -> Result<Config, Vec<ConfigProblem>> {
    let dev = if is_dev { Some(dev_keys::of_folder(kinds).map_err(|error| no_keys(&error))?) } else { None };
    let (settings, facts) = settings(file, dev.as_ref(), kinds);
    let judge = |name: &Name, provider: &ProviderConfig| {
        let kind = kinds.iter().find(|kind| kind.kind() == provider.kind.as_str());
        let mut mistakes = kind.and_then(|kind| kind.activate(name, provider, "").err()).unwrap_or_default();
        if let Some(Ok(spec)) = kind.filter(|_| !is_dev).map(Provider::spec) {
            mistakes.extend(published_mistakes(spec, provider));
        }
        mistakes
    };
    let loaded = config::load_judged(&settings, &facts, &judge);
    // What is wrong with kinds is wrong with the configuration.
    if kinds.problems.is_empty() {
        return loaded;
    }
    let mut problems = loaded.err().unwrap_or_default();
    problems.extend(kinds.problems.iter().cloned());
    problems.sort();
    Err(problems)
}

/// As [`load`], for tools that only sign or judge: they may do so with a secret that `serve` refuses,
/// and beside kinds that cannot be used, whose providers are then not there.
pub(crate) fn load_for_tools(file: Option<&Path>, kinds: &Kinds) -> Result<Config, Vec<ConfigProblem>> {
    let (settings, facts) = settings(file, None, kinds);
    config::load(&settings, &facts)
}

fn no_keys(error: &std::io::Error) -> Vec<ConfigProblem> {
    vec![ConfigProblem {
        source: "serve --dev".to_owned(),
        key: String::new(),
        value: None,
        why: format!("has no development keys: {error}"),
        remedy: "start it in a folder that it may write to".to_owned(),
    }]
}

fn settings(file: Option<&Path>, keys: Option<&DevKeys>, kinds: &Kinds) -> (Settings, Vec<KindFacts>) {
    let mut facts = Vec::new();
    let mut dev = Vec::new();
    for kind in kinds.iter() {
        // A kind with a broken spec is reported when the app is built; here it is simply not known.
        let (Ok(spec), Ok(name)) = (kind.spec(), Name::parse(kind.kind())) else { continue };
        dev.extend(keys.and_then(|keys| dev_kind(&name, spec, keys)));
        facts.push(KindFacts {
            kind: name,
            horizon_h: spec.horizon_h,
            resend: match spec.resend_h {
                None => ResendFacts::Unknown,
                Some(Resend::Hours(hours)) => ResendFacts::Hours(hours),
                Some(Resend::Unbounded) => ResendFacts::Unbounded,
            },
            has_signed_time: spec.has_signed_time() && !spec.signature.time_optional,
            tolerance_s: spec.signatures().find_map(|one| one.tolerance_s),
            is_age_unchecked: spec.signatures().any(|one| one.age_unchecked),
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
        dev: keys.is_some().then_some(dev),
        broken_kinds: kinds.broken.clone(),
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
fn dev_kind(name: &Name, spec: &Spec, keys: &DevKeys) -> Option<DevKind> {
    let settings = dev_settings(spec, keys);
    let wanted = spec.signature.keys.as_ref();
    let mut needed = spec.setting.iter().filter(|setting| setting.needed || Some(&setting.name) == wanted);
    if !needed.all(|setting| settings.has(&setting.name)) {
        return None;
    }
    Some(DevKind {
        kind: name.clone(),
        secret: spec.takes_secrets().then(|| Secret::new(dev_secret(spec))),
        settings,
        is_unsigned: !spec.takes_secrets() && spec.signature.may_be_unsigned,
    })
}

/// As [`load`], with every problem in the error's text.
pub(crate) fn loaded(file: Option<&Path>, is_dev: bool, kinds: &Kinds) -> anyhow::Result<Config> {
    load(file, is_dev, kinds).map_err(|problems| unusable(&problems))
}

pub(crate) fn unusable(problems: &[ConfigProblem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
}
