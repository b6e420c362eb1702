//! From what the operator wrote to a [`Config`], or to everything that is wrong with it.
//!
//! Start at [`load`]. The environment comes in as a value, so that a test can hand in its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ::config::{Map, Value, ValueKind};

use super::field::{Checker, Field, Table};
use super::layers::{self, Layer};
use super::problem::ConfigProblem;
use super::provider::{self, Known};
use super::{
    Config, ConfigSource, KindSettings, ProviderConfig, Secret, destination, dev, retention, secret, section,
};
use crate::types::Name;

/// The defaults, and the manual: every key with its meaning, unit and range.
pub const DEFAULTS: &str = include_str!("../../config.default.toml");
/// Named as the source of what the operator left alone.
pub(super) const DEFAULTS_ORIGIN: &str = "config.default.toml";
/// The file that is read when none is named.
const USER_FILE: &str = "hooklatch.toml";

/// What the checker has to know about a provider kind.
#[derive(Debug, Clone)]
pub struct KindFacts {
    /// The kind.
    pub kind: Name,
    /// How long the sender goes on sending an event by itself. Hours.
    pub horizon_h: u32,
    /// How long it can be made to send it again.
    pub resend: ResendFacts,
    /// Whether the signature covers a time; without one a recorded request can be played again for ever.
    pub has_signed_time: bool,
    /// How old the signed time may be that the kind checks, if it checks one, be it in one of two schemes. Seconds.
    pub tolerance_s: Option<u32>,
    /// Whether it signs a time and nobody bounds its age.
    pub is_age_unchecked: bool,
    /// Whether the signature covers the URL, so that `server.public_url` must be right.
    pub has_signed_url: bool,
    /// Whether `secrets` must be there.
    pub secrets: SecretsNeed,
    /// What may be under `settings`.
    pub settings: Vec<SettingFacts>,
}

/// How long a sender can be made to send an event again, by a person or by its API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResendFacts {
    /// Nothing is known of that.
    Unknown,
    /// For so many hours.
    Hours(u32),
    /// Its sender sets no limit.
    Unbounded,
}

/// Whether a provider of a kind must have `secrets`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretsNeed {
    /// Without one anybody could sign.
    Needed,
    /// The sender may sign nothing; then the operator has to say `unverified = "accept"`.
    OrUnverified,
    /// The kind verifies with its settings.
    Optional,
}

/// What the checker has to know about a setting of a kind.
#[derive(Debug, Clone)]
pub struct SettingFacts {
    /// Its key.
    pub name: String,
    /// How it is written.
    pub shape: SettingShape,
    /// Whether a provider cannot do without it.
    pub is_needed: bool,
    /// Where the operator finds it.
    pub hint: String,
}

/// How a setting is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingShape {
    /// A text or secret.
    Text,
    /// One, or a list of them.
    List,
    /// A list of `{ id, key }`.
    Named,
}

/// A kind as `serve --dev` configures it.
#[derive(Debug, Clone)]
pub struct DevKind {
    /// The kind.
    pub kind: Name,
    /// Its published secret, if it needs one.
    pub secret: Option<Secret>,
    /// The published or generated values of its settings.
    pub settings: KindSettings,
    /// Whether it signs nothing.
    pub is_unsigned: bool,
}

/// The environment variables of a process. It does not print their values.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// What this process was started with. Variables that are not Unicode cannot be named by a config.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?)))
            .collect()
    }

    /// The value of a variable.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

impl std::fmt::Debug for Environment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where a configuration is to be read from.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The file that was named; `None` takes `hooklatch.toml` if it is there.
    pub source: ConfigSource,
    /// The environment.
    pub env: Environment,
    /// With `serve --dev`: the kinds and what is published for them.
    pub dev: Option<Vec<DevKind>>,
    /// Kinds whose folder cannot be used, which is told already: nothing is said about their providers.
    pub broken_kinds: Vec<String>,
}

/// Where `[kinds] folder` is, and what says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindsFolder {
    /// The folder, from the config file's on.
    pub path: PathBuf,
    /// The file or variable.
    pub source: String,
}

/// The folder of kinds that are read when the program starts, if there is one. Looked up before everything else
/// is checked; what is wrong with the layers, or with the key, is for [`load`] to say.
pub fn kinds_folder(settings: &Settings) -> Option<KindsFolder> {
    let file = settings.source.file_to_read();
    let root = merged(settings, file.as_deref()).ok()?;
    let ValueKind::Table(kinds) = &root.get("kinds")?.kind else { return None };
    let folder = kinds.get("folder")?;
    let ValueKind::String(text) = &folder.kind else { return None };
    let checker = checker(settings, file.as_deref());
    let source = layers::origin_of(folder).unwrap_or_else(|| checker.default_source.clone());
    (!text.is_empty()).then(|| KindsFolder { path: checker.folder.join(text), source })
}

impl ConfigSource {
    /// The file that is read, if one is.
    pub fn file_to_read(&self) -> Option<PathBuf> {
        let usual = || Some(PathBuf::from(USER_FILE)).filter(|path| path.exists());
        self.file.clone().or_else(usual)
    }
}

/// What a kind itself has to say about a provider, such as that a secret is too short for its scheme.
pub type Judge<'a> = &'a dyn Fn(&Name, &ProviderConfig) -> Vec<String>;

/// Reads all layers and checks them; on failure everything that is wrong, sorted by source and key.
pub fn load(settings: &Settings, kinds: &[KindFacts]) -> Result<Config, Vec<ConfigProblem>> {
    load_judged(settings, kinds, &|_, _| Vec::new())
}

/// As [`load`], with what the kinds themselves find wrong among the problems.
pub fn load_judged(
    settings: &Settings,
    kinds: &[KindFacts],
    judge: Judge<'_>,
) -> Result<Config, Vec<ConfigProblem>> {
    let file = settings.source.file_to_read();
    let root = merged(settings, file.as_deref())?;
    let mut checker = checker(settings, file.as_deref());
    let config = whole(&mut checker, root, (kinds, &settings.broken_kinds), judge);
    let mut problems = checker.problems;
    problems.sort();
    problems.dedup();
    match config {
        Some(config) if problems.is_empty() => {
            let warnings = checker.secret_files.iter().filter_map(|path| secret::open_to_all(path)).collect();
            Ok(Config { warnings, ..config })
        }
        _ => Err(problems),
    }
}

fn checker<'a>(settings: &'a Settings, file: Option<&Path>) -> Checker<'a> {
    let folder = file.and_then(Path::parent).map_or_else(PathBuf::new, Path::to_path_buf);
    Checker {
        env: &settings.env,
        folder,
        is_dev: settings.dev.is_some(),
        default_source: file.map_or_else(|| USER_FILE.to_owned(), |path| path.display().to_string()),
        problems: Vec::new(),
        secret_files: BTreeSet::new(),
        asked: BTreeSet::new(),
    }
}

/// The layers as one table; or what keeps them from being read at all.
fn merged(settings: &Settings, file: Option<&Path>) -> Result<Map<String, Value>, Vec<ConfigProblem>> {
    let mut problems = Vec::new();
    let mut keep = |layer: Result<Layer, Vec<ConfigProblem>>| {
        layer.unwrap_or_else(|more| {
            problems.extend(more);
            Layer::default()
        })
    };
    let defaults = keep(layers::toml_layer(DEFAULTS_ORIGIN, DEFAULTS));
    let user = keep(file.map_or_else(|| Ok(Layer::default()), file_layer));
    let env = keep(layers::env_layer(&settings.env.0));
    if !problems.is_empty() {
        return Err(problems);
    }
    let all = |dev: Layer| {
        layers::merged(vec![defaults.clone(), dev, user.clone(), env.clone()]).map_err(|error| {
            let why = format!("the layers do not fit together: {error}");
            vec![whole_problem(DEFAULTS_ORIGIN, why, "report this as a bug")]
        })
    };
    let Some(secrets) = &settings.dev else { return all(Layer::default()) };
    // The echo destination is on the operators' listener, so that has to be known first.
    let admin_listen = admin_listen(&all(Layer::default())?);
    all(dev::layer(secrets, admin_listen))
}

fn file_layer(path: &Path) -> Result<Layer, Vec<ConfigProblem>> {
    let source = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => layers::toml_layer(&source, &text),
        Err(error) => {
            let why = format!("cannot be read: {error}");
            Err(vec![whole_problem(&source, why, "check the path and its rights")])
        }
    }
}

fn whole_problem(source: &str, why: String, remedy: &str) -> ConfigProblem {
    ConfigProblem {
        source: source.to_owned(),
        key: String::new(),
        value: None,
        why,
        remedy: remedy.to_owned(),
    }
}

fn admin_listen(root: &Map<String, Value>) -> Option<SocketAddr> {
    let ValueKind::Table(admin) = &root.get("admin")?.kind else { return None };
    let ValueKind::String(listen) = &admin.get("listen")?.kind else { return None };
    listen.parse().ok()
}

/// Checks every section, so that no problem hides another. `None` only after a problem.
fn whole(
    checker: &mut Checker<'_>,
    root: Map<String, Value>,
    (kinds, broken_kinds): (&[KindFacts], &[String]),
    judge: Judge<'_>,
) -> Option<Config> {
    let mut root = Table::root(root);
    let server = section::server(checker, &mut root);
    let admin = section::admin(checker, &mut root, server.as_ref().map(|(server, _)| server.listen));
    let database = section::database(checker, &mut root);
    let outbox = section::outbox(checker, &mut root);
    let fetch = section::fetch(checker, &mut root);
    let log = section::log(checker, &mut root);
    section::kinds(checker, &mut root);

    let places = root.table(checker, "destinations").map_or_else(Vec::new, |table| table.entries(checker));
    let senders = root.table(checker, "providers").map_or_else(Vec::new, |table| table.entries(checker));
    let names: Vec<String> = places.iter().map(|(name, _)| name.clone()).collect();
    let lease_ms = outbox.as_ref().and_then(|(_, lease_ms)| *lease_ms);
    let destinations = places
        .into_iter()
        .filter_map(|(name, field)| destination::destination(checker, &name, field, lease_ms))
        .collect();
    let known = Known { kinds, broken_kinds, destinations: &names };
    let providers: BTreeMap<_, _> = senders
        .into_iter()
        .filter_map(|(name, field)| sender(checker, (&name, field), &known, judge))
        .collect();
    let retention = retention::retention(checker, &mut root, &providers, kinds);
    root.finish(checker);

    let (server, has_public_url) = server?;
    let config = Config {
        server,
        admin: admin?,
        database: database?,
        retention,
        providers,
        outbox: outbox?.0,
        destinations,
        fetch: fetch?,
        log: log?,
        warnings: Vec::new(),
    };
    if !has_public_url {
        check_public_url(checker, &config, kinds);
    }
    Some(config)
}

/// One provider; when its keys are right one by one, its kind has a word too.
fn sender(
    checker: &mut Checker<'_>,
    (name, field): (&str, Field),
    known: &Known<'_>,
    judge: Judge<'_>,
) -> Option<(Name, ProviderConfig)> {
    let place = field.clone();
    let problems_before = checker.problems.len();
    let (name, config) = provider::provider(checker, name, field, known)?;
    if checker.problems.len() == problems_before {
        for mistake in judge(&name, &config) {
            checker.judged(&place, &mistake);
        }
    }
    Some((name, config))
}

/// A sender that signs the URL cannot be believed while nobody told us which URL it was given.
fn check_public_url(checker: &mut Checker<'_>, config: &Config, kinds: &[KindFacts]) {
    if config.server.listen.ip().is_loopback() {
        return;
    }
    for (name, provider) in &config.providers {
        let is_signed = kinds.iter().any(|facts| facts.kind == provider.kind && facts.has_signed_url);
        if is_signed {
            let remedy = format!(
                "provider `{name}` signs the URL: write the one that it was given, without /webhooks/{name}"
            );
            checker.missing("server.public_url".to_owned(), remedy);
        }
    }
}

/// Every key the program asks for when it reads `settings`, for the test of the manual.
#[cfg(test)]
fn asked(settings: &Settings, kinds: &[KindFacts]) -> BTreeSet<String> {
    let root = merged(settings, settings.source.file.as_deref()).unwrap_or_default();
    let mut checker = checker(settings, None);
    whole(&mut checker, root, (kinds, &[]), &|_, _| Vec::new());
    checker.asked
}

#[cfg(test)]
mod tests;
