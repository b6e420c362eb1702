//! From what the operator wrote to a [`Config`] with its providers ready, or to everything that is wrong with it.
//!
//! Start at [`load`]. The order in `whole` is that of need:
//!
//! - `[server]` comes first, because other sections are measured against it: the operators' listener must be another
//!   one, and a provider's URL begins with `public_url`.
//! - The names of destinations are known before any of them is read, so that a route to one that is wrong in itself is
//!   not reported as a route to nowhere.
//! - A provider is read key by key. When nothing was wrong with it, its kind makes it; what that refuses is reported at
//!   the provider's own keys. A provider with a wrong key is not made: its kind would only repeat the same in other
//!   words.
//! - `[retention]` comes last, because ids live for as long as the kinds in use need them.
//!
//! Every reader records what is wrong and goes on, so one start reports everything. `None` travels only beside a
//! problem.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::layers::{ConfigSources, DEFAULTS, DEV_ORIGIN, Layer, Settings, toml_layer};
use super::provider::{ConfiguredNames, provider};
use super::sections;
use hooklatch_core::config::{
    Checker, Config, ConfigProblem, DEFAULTS_ORIGIN, ENV_PREFIX, EffectiveSetting, EncryptionConfig,
    Environment, FetchConfig, Field, Found, KindsFolder, LogConfig, OutboxConfig, ProviderConfig, ReadValue,
    ReadValues, SettingLayer, Table, TracingConfig, mark_of, open_to_all,
};
use hooklatch_core::types::Name;
use hooklatch_outbox::parse_destination;
use hooklatch_receive::kind::{TakenNames, read_folder};
use hooklatch_receive::provider::{ActiveProvider, Kind, KindError, Provider, published_mistakes};
use hooklatch_verify::spec::Spec;

/// The kinds there are, and what is wrong with those that cannot be used.
#[derive(Default)]
pub struct Kinds {
    /// The kinds that can be used.
    pub all: Vec<Provider>,
    /// The folder that some of them were read from, if one is configured.
    pub folder: Option<KindsFolder>,
    /// Everything that is wrong with the kinds of that folder.
    pub problems: Vec<ConfigProblem>,
    /// Names of the kinds that cannot be used, which is reported already: their providers are not reported again.
    pub broken: Vec<String>,
}

impl Kinds {
    /// Makes a list of these kinds, with no folder of others.
    pub fn of(all: Vec<Provider>) -> Self {
        Self { all, ..Self::default() }
    }
}

impl std::ops::Deref for Kinds {
    type Target = [Provider];

    fn deref(&self) -> &[Provider] {
        &self.all
    }
}

/// The built-in kinds, with those of the configured folder and of `own` added or put in their place.
pub fn kinds(file: Option<&Path>, own: Vec<Provider>) -> Kinds {
    kinds_beside(&Settings::of_process(file), own)
}

/// The built-in kinds, with those of the folder in these settings and of `own` added or put in their place.
pub fn kinds_beside(settings: &Settings, own: Vec<Provider>) -> Kinds {
    let mut all = hooklatch_receive::providers::builtin();
    let (own, unusable): (Vec<_>, Vec<_>) = own.into_iter().partition(|kind| kind.spec().is_ok());
    all.retain(|kind| own.iter().all(|one| one.kind() != kind.kind()));
    let names = |kinds: &[Provider]| kinds.iter().map(|kind| kind.kind().to_owned()).collect::<Vec<_>>();
    let folder = kinds_folder(settings);
    let taken = TakenNames { builtin: &names(&all), own: &names(&own) };
    let found = folder.as_ref().map(|folder| read_folder(folder, &taken)).unwrap_or_default();
    let twice = named_twice(&own);
    all.extend(own);
    all.retain(|kind| found.kinds.iter().all(|one| one.kind() != kind.kind()));
    all.extend(found.kinds);
    let mut all = Kinds { all, folder, problems: found.problems, broken: found.broken };
    for error in unusable.iter().filter_map(|kind| kind.spec().err()).chain(&twice) {
        all.problems.push(ConfigProblem::new("this program", "", error.to_string(), ""));
        all.broken.push(error.kind().to_owned());
    }
    all
}

/// The names that stand for two kinds: only one of those would be looked up.
fn named_twice(own: &[Provider]) -> Vec<KindError> {
    let mut seen = BTreeSet::new();
    let again: BTreeSet<&str> = own.iter().map(Provider::kind).filter(|name| !seen.insert(*name)).collect();
    again.into_iter().map(|name| KindError::Twice { name: name.to_owned() }).collect()
}

/// The folder of kinds that are read when the program starts, if there is one. It is looked up before everything else
/// is checked; what is wrong with the layers, or with the key, is reported by the load itself.
fn kinds_folder(settings: &Settings) -> Option<KindsFolder> {
    let sources = ConfigSources::of(settings);
    let checker = sources.checker();
    let folder = Table::root(&checker, sources.merged(&[]).ok()?).peek("kinds")?.peek("folder")?;
    let text = folder.text().filter(|text| !text.is_empty())?;
    Some(KindsFolder { path: checker.folder.join(text), source: folder.source })
}

/// The kind that `provider` is of.
pub(crate) fn kind_of<'a>(kinds: &'a [Provider], provider: &ProviderConfig) -> Option<&'a Provider> {
    kinds.iter().find(|kind| kind.kind() == provider.kind.as_str())
}

/// A configuration that holds, with what was made of it while it was checked.
pub struct Loaded {
    /// The configuration, all of it checked.
    pub config: Config,
    /// Its providers, ready to verify: each is made once, and making it is its check.
    pub active: BTreeMap<Name, ActiveProvider>,
}

/// Reads all layers and checks them, the strength of secrets included; on failure everything that is wrong, sorted by
/// source and key. What is wrong with kinds is wrong with the configuration.
pub fn load(settings: &Settings, kinds: &Kinds) -> Result<Loaded, Vec<ConfigProblem>> {
    let loaded = checked(settings, kinds, true);
    if kinds.problems.is_empty() {
        return loaded;
    }
    let mut problems = loaded.err().unwrap_or_default();
    problems.extend(kinds.problems.iter().cloned());
    problems.sort();
    Err(problems)
}

/// Reads as [`load`] does, for tools that only sign or judge: they may do so with a secret that `serve` refuses,
/// and beside kinds that cannot be used, whose providers are then not there.
pub fn load_for_tools(settings: &Settings, kinds: &Kinds) -> Result<Config, Vec<ConfigProblem>> {
    checked(settings, kinds, false).map(|loaded| loaded.config)
}

fn checked(settings: &Settings, kinds: &Kinds, is_activated: bool) -> Result<Loaded, Vec<ConfigProblem>> {
    let sources = ConfigSources::of(settings);
    let root = sources.merged(kinds)?;
    let checker = sources.checker();
    let loaded = whole(&checker, root, kinds, is_activated);
    let Found { mut problems, warnings, secret_files, asked, read } = checker.into_found();
    problems.sort();
    problems.dedup();
    let Some(mut loaded) = loaded.filter(|_| problems.is_empty()) else { return Err(problems) };
    let open = secret_files.iter().filter_map(|path| open_to_all(path));
    loaded.config.settings = effective(read, defaults());
    loaded.config.warnings = warnings.into_iter().chain(open).collect();
    let misspelt = misspelt_variables(&settings.env, &asked, &loaded.config.settings);
    loaded.config.warnings.extend(misspelt);
    Ok(loaded)
}

/// Checks every section, so that no problem hides another. `None` only after a problem.
fn whole(checker: &Checker<'_>, root: Layer, kinds: &Kinds, is_activated: bool) -> Option<Loaded> {
    let mut root = Table::root(checker, root);
    let server = sections::server(&mut root);
    let admin = sections::admin(&mut root, server.as_ref().map(|(server, _)| server.listen));
    let database = sections::database(&mut root);
    let encryption = root.section("encryption", EncryptionConfig::read);
    let outbox = root.section("outbox", OutboxConfig::read);
    let fetch = root.section("fetch", FetchConfig::read);
    let tracing = root.section("tracing", TracingConfig::read);
    let log = root.section("log", LogConfig::read);
    root.section("kinds", |table| table.text("folder"));
    let places = root.entries_of("destinations");
    let senders = root.entries_of("providers");
    let names: Vec<String> = places.iter().map(|(name, _)| name.clone()).collect();
    // After a problem it is 0.
    let lease_ms = outbox.as_ref().map(|outbox| outbox.lease_ms).filter(|lease_ms| *lease_ms > 0);
    let destinations =
        places.iter().filter_map(|(name, field)| parse_destination(name, field, lease_ms)).collect();
    let body_bytes_max = server.as_ref().map_or(0, |(server, _)| server.body_bytes_max);
    let known = ConfiguredNames { kinds, destinations: &names, body_bytes_max };
    let public_url = server.as_ref().map_or("", |(server, _)| server.public_url.as_str());
    let (mut providers, mut active) = (BTreeMap::new(), BTreeMap::new());
    for (name, field) in senders {
        let problems_before = checker.problems_n();
        let Some((name, config)) = provider(&name, &field, &known) else { continue };
        // Once every key is valid, its kind validates the whole.
        if is_activated && checker.problems_n() == problems_before {
            let ready = activated(&field, kinds, &name, &config, public_url);
            active.extend(ready.map(|ready| (name.clone(), ready)));
        }
        providers.insert(name, config);
    }
    let retention = sections::retention(&mut root, &providers, kinds);
    root.finish();
    let (server, has_public_url) = server?;
    let config = Config {
        server,
        admin: admin?,
        database: database?,
        encryption: encryption?,
        retention,
        providers,
        outbox: outbox?,
        destinations,
        fetch: fetch?,
        tracing: tracing?,
        log: log?,
        settings: Vec::new(),
        warnings: Vec::new(),
    };
    if !has_public_url {
        check_public_url(checker, &config, kinds);
    }
    Some(Loaded { config, active })
}

/// The provider, ready; or `None` once everything that its kind finds wrong with it is recorded.
fn activated(
    place: &Field<'_>,
    kinds: &[Provider],
    name: &Name,
    config: &ProviderConfig,
    public_url: &str,
) -> Option<ActiveProvider> {
    let kind = kind_of(kinds, config)?;
    let ready = kind.activate(name, config, public_url);
    let published = match kind.spec() {
        Ok(spec) if !place.checker.is_dev => published_mistakes(spec, config),
        _ => Vec::new(),
    };
    let mistakes = ready.as_ref().err().into_iter().flatten().chain(&published);
    mistakes.for_each(|mistake| place.mistake(mistake));
    ready.ok()
}

/// A sender that signs the URL cannot be verified without the URL that it was given.
fn check_public_url(checker: &Checker<'_>, config: &Config, kinds: &[Provider]) {
    if config.server.listen.ip().is_loopback() {
        return;
    }
    for (name, provider) in &config.providers {
        let spec = kind_of(kinds, provider).and_then(|kind| kind.spec().ok());
        if spec.is_some_and(Spec::has_signed_url) {
            let remedy = format!(
                "provider `{name}` signs the URL: write the one that it was given, without /webhooks/{name}"
            );
            checker.missing("server.public_url", remedy);
        }
    }
}

/// Loads what this process is to run with; every problem is in the error's text.
pub fn loaded(file: Option<&Path>, is_dev: bool, kinds: &Kinds) -> anyhow::Result<Loaded> {
    let settings = if is_dev { Settings::of_dev(file, kinds) } else { Ok(Settings::of_process(file)) };
    settings.and_then(|settings| load(&settings, kinds)).map_err(|problems| unusable(&problems))
}

/// Makes one error of these problems.
pub fn unusable(problems: &[ConfigProblem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    anyhow::anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
}

/// The defaults.
fn defaults() -> ReadValues {
    let (env, source) = (Environment::default(), DEFAULTS_ORIGIN.to_owned());
    let checker = Checker::new(&env, PathBuf::new(), source);
    whole(&checker, toml_layer(DEFAULTS_ORIGIN, DEFAULTS).unwrap_or_default(), &Kinds::default(), false);
    checker.into_found().read
}

/// What is in force, as a list for people: every value that was read, by key, with the layer that it is of; a list of
/// plain values is one of them.
fn effective(read: ReadValues, defaults: ReadValues) -> Vec<EffectiveSetting> {
    let defaults: BTreeMap<String, ReadValue> = joined(defaults.into_values()).into_iter().collect();
    let values = joined(read.into_values());
    let settings = values.into_iter().map(|(key, value)| {
        let layer = layer(&value.source);
        let is_default = layer == SettingLayer::Default
            || value.text.is_some() && defaults.get(&key).is_some_and(|default| default.mark == value.mark);
        let ReadValue { source, text, secret_in, mark } = value;
        EffectiveSetting { key, value: text, secret_in, source, layer, is_default, mark }
    });
    settings.collect()
}

fn layer(source: &str) -> SettingLayer {
    match source {
        DEFAULTS_ORIGIN => SettingLayer::Default,
        DEV_ORIGIN => SettingLayer::Dev,
        source if source.starts_with(ENV_PREFIX) => SettingLayer::Environment,
        _ => SettingLayer::File,
    }
}

/// Writes `key[0]`, `key[1]`, … as one list under `key`, where nothing of it is secret.
fn joined(values: BTreeMap<String, ReadValue>) -> Vec<(String, ReadValue)> {
    let mut lists: BTreeMap<String, BTreeMap<usize, ReadValue>> = BTreeMap::new();
    let mut all = BTreeMap::new();
    for (key, value) in values {
        match (place(&key), &value.text) {
            (Some((list, n)), Some(_)) => drop(lists.entry(list.to_owned()).or_default().insert(n, value)),
            _ => drop(all.insert(key, value)),
        }
    }
    for (key, items) in lists {
        let source = items.values().next().map(|value| value.source.clone()).unwrap_or_default();
        let mark = mark_of(&items.values().map(|value| value.mark.to_string()).collect::<Vec<_>>().join(" "));
        let texts: Vec<String> = items.into_values().filter_map(|value| value.text).collect();
        let text = Some(format!("[{}]", texts.join(", ")));
        all.insert(key, ReadValue { source, text, secret_in: None, mark });
    }
    all.into_iter().collect()
}

/// The list and the place in it, for a key that ends with one.
fn place(key: &str) -> Option<(&str, usize)> {
    let (list, n) = key.strip_suffix(']')?.rsplit_once('[')?;
    Some((list, n.parse().ok()?))
}

/// Warns of variables with one underscore where two belong, such as `HOOKLATCH_SERVER_LISTEN`. `asked` has the keys
/// there are; a variable that `settings` take a secret from has the name that the user chose.
fn misspelt_variables<T>(
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
        let is_spaced = name.to_ascii_uppercase().starts_with(ENV_PREFIX);
        let rule = if is_spaced {
            "begin it in capitals"
        } else {
            "write two underscores between the parts of a key"
        };
        let remedy = format!("{rule}: {ENV_PREFIX}{meant}");
        Some(ConfigProblem::new(name, "", "is a variable that nothing reads", remedy))
    };
    env.all().keys().filter_map(problem).collect()
}

/// Every key that the program reads from `settings`, and the range of each number; for the test of the manual.
#[cfg(test)]
pub(crate) fn asked(
    settings: &Settings,
    kinds: &Kinds,
) -> BTreeMap<String, Option<std::ops::RangeInclusive<u64>>> {
    let sources = ConfigSources::of(settings);
    let checker = sources.checker();
    whole(&checker, sources.merged(kinds).unwrap_or_default(), kinds, false);
    checker.into_found().asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_receive::provider::Provider;

    /// What is in force with this file and these variables, by key.
    fn effective(toml: &str, env: &[(&str, &str)]) -> BTreeMap<String, EffectiveSetting> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("own.toml");
        std::fs::write(&file, toml).expect("written");
        std::fs::write(folder.path().join("secret"), "whsec_s3cr3t_0123456789").expect("written");
        let env = env.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let settings = Settings { file: Some(file), env, dev: None };
        let stripe = Provider::from_spec(include_str!("../../../../providers/stripe/provider.toml"));
        let kinds = Kinds::of(vec![stripe]);
        let config = load_for_tools(&settings, &kinds).expect("right");
        config.settings.into_iter().map(|setting| (setting.key.clone(), setting)).collect()
    }

    #[test]
    fn every_setting_is_listed_with_its_layer() {
        #[track_caller]
        fn check(
            found: &BTreeMap<String, EffectiveSetting>,
            key: &str,
            value: Option<&str>,
            layer: SettingLayer,
            is_default: bool,
        ) {
            let setting = &found[key];
            let actual = (setting.value.as_deref(), setting.layer, setting.is_default);
            assert_eq!(actual, (value, layer, is_default), "{key}");
        }
        let found = effective(
            "[server]\nqueue_n_max = 77\nbody_bytes_max = 1048576\n[admin]\nhosts = [\"a.internal\", \"b.internal\"]\n\
             [database]\nurl = \"sqlite://x.db\"\n[providers.stripe]\nsecrets = [\"whsec_s3cr3t_0123456789\", { env = \"OTHER\" }, { file = \"secret\" }]\n\
             routes = [{ on = [\"*\"], to = \"billing\" }]\n\
             [destinations.billing]\nurl = \"https://u.internal/s3cr3t?s3cr3t\"\nheaders = { x-key = \"s3cr3t\" }\n",
            &[
                ("OTHER", "whsec_s3cr3t_9876543210"),
                ("HOOKLATCH__SERVER__EVENTS_N_MAX", "123"),
                (
                    "HOOKLATCH__ADMIN__TOKENS",
                    "[{ name = \"ops\", role = \"operator\", token = \"s3cr3t-0123456789\" }]",
                ),
            ],
        );
        check(&found, "server.queue_n_max", Some("77"), SettingLayer::File, false);
        check(&found, "server.body_bytes_max", Some("1048576"), SettingLayer::File, true);
        check(&found, "server.listen", Some("\"127.0.0.1:8080\""), SettingLayer::Default, true);
        check(&found, "server.events_n_max", Some("123"), SettingLayer::Environment, false);
        check(&found, "admin.hosts", Some(r#"["a.internal", "b.internal"]"#), SettingLayer::File, false);
        check(&found, "admin.tokens[0].name", Some("\"ops\""), SettingLayer::Environment, false);
        check(&found, "admin.tokens[0].token", None, SettingLayer::Environment, false);
        check(&found, "database.url", Some("\"sqlite://x.db\""), SettingLayer::File, false);
        check(&found, "providers.stripe.secrets[0]", None, SettingLayer::File, false);
        check(&found, "providers.stripe.routes[0].on", Some(r#"["*"]"#), SettingLayer::File, false);
        check(
            &found,
            "destinations.billing.url",
            Some("\"https://u.internal/…\""),
            SettingLayer::File,
            false,
        );
        check(&found, "destinations.billing.headers.x-key", None, SettingLayer::File, false);
        let secret_in = |n: u32| found[&format!("providers.stripe.secrets[{n}]")].secret_in.clone();
        assert_eq!(secret_in(0), None);
        assert_eq!(secret_in(1).as_deref(), Some("variable OTHER"));
        assert_eq!(secret_in(2).as_deref(), Some("file secret"));
        assert_eq!(found["server.events_n_max"].source, "HOOKLATCH__SERVER__EVENTS_N_MAX");
        assert!(found["server.queue_n_max"].source.ends_with("own.toml"));
        let text = format!("{found:?}");
        assert!(!text.contains("s3cr3t"), "{text}");
    }

    #[test]
    fn every_key_that_has_a_default_is_in_the_list() {
        let found = effective("", &[]);
        let defaults = joined(defaults().into_values()).into_iter().map(|(key, _)| key);
        let missing: Vec<String> = defaults.filter(|key| !found.contains_key(key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(found.values().all(|setting| setting.is_default), "{found:?}");
    }
}
