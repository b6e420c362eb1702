//! From what the operator wrote to a [`Config`] with its providers ready, or to everything that is wrong with it.
//!
//! Start at [`load`]. The order in `whole` is that of need:
//!
//! - `[server]` comes first, because other sections are measured against it: the operators' listener must be another
//!   one, and a provider's URL begins with `public_url`.
//! - The names of destinations are known before any of them is read, so that a route to one that is wrong in itself is
//!   not told as a route to nowhere.
//! - A provider is read key by key. When nothing was wrong with it, its kind makes it; what that refuses is told at the
//!   provider's own keys. A provider with a wrong key is not made: its kind would only repeat the same in other words.
//! - `[retention]` comes last, because ids live for as long as the kinds in use need them.
//!
//! Every reader records what is wrong and goes on, so one start tells everything. `None` travels only beside a problem.

use std::collections::BTreeMap;

use ::config::{Map, Value};

use super::kind_list::{Kinds, kind_of};
use super::provider::KnownNames;
use super::settings::Settings;
use super::sources::ConfigSources;
use super::{
    admin, database, effective, encryption, provider, retention, section, server, tracing, variables,
};
use crate::config::{Checker, Config, ConfigProblem, Field, ProviderConfig, Table, open_to_all};
use crate::outbox::parse_destination;
use crate::provider::{ActiveProvider, Provider, published_mistakes};
use crate::spec::Spec;
use crate::types::Name;

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
    let mut checker = sources.checker();
    let loaded = whole(&mut checker, root, kinds, is_activated);
    let mut problems = checker.problems;
    problems.sort();
    problems.dedup();
    match loaded {
        Some(mut loaded) if problems.is_empty() => {
            let open = checker.secret_files.iter().filter_map(|path| open_to_all(path));
            loaded.config.warnings = checker.warnings.into_iter().chain(open).collect();
            loaded.config.settings = effective::settings(checker.read);
            let misspelt = variables::misspelt(&settings.env, &checker.asked, &loaded.config.settings);
            loaded.config.warnings.extend(misspelt);
            Ok(loaded)
        }
        _ => Err(problems),
    }
}

/// Checks every section, so that no problem hides another. `None` only after a problem.
fn whole(
    checker: &mut Checker<'_>,
    root: Map<String, Value>,
    kinds: &Kinds,
    is_activated: bool,
) -> Option<Loaded> {
    let mut root = Table::root(root);
    let server = server::server(checker, &mut root);
    let admin = admin::admin(checker, &mut root, server.as_ref().map(|(server, _)| server.listen));
    let database = database::database(checker, &mut root);
    let encryption = encryption::encryption(checker, &mut root);
    let outbox = section::outbox(checker, &mut root);
    let fetch = section::fetch(checker, &mut root);
    let tracing = tracing::tracing(checker, &mut root);
    let log = section::log(checker, &mut root);
    section::kinds(checker, &mut root);
    let places = root.table(checker, "destinations").map_or_else(Vec::new, |table| table.entries(checker));
    let senders = root.table(checker, "providers").map_or_else(Vec::new, |table| table.entries(checker));
    let names: Vec<String> = places.iter().map(|(name, _)| name.clone()).collect();
    let lease_ms = outbox.as_ref().and_then(|(_, lease_ms)| *lease_ms);
    let destinations = places
        .into_iter()
        .filter_map(|(name, field)| parse_destination(checker, &name, field, lease_ms))
        .collect();
    let body_bytes_max = server.as_ref().map_or(0, |(server, _)| server.body_bytes_max);
    let known = KnownNames { kinds, broken_kinds: &kinds.broken, destinations: &names, body_bytes_max };
    let public_url = server.as_ref().map_or("", |(server, _)| server.public_url.as_str());
    let (mut providers, mut active) = (BTreeMap::new(), BTreeMap::new());
    for (name, field) in senders {
        let place = field.clone();
        let problems_before = checker.problems.len();
        let Some((name, config)) = provider::provider(checker, &name, field, &known) else { continue };
        // When its keys are right one by one, its kind has a word too.
        if is_activated && checker.problems.len() == problems_before {
            let ready = activated(checker, &place, kinds, Named { name: &name, config: &config, public_url });
            active.extend(ready.map(|ready| (name.clone(), ready)));
        }
        providers.insert(name, config);
    }
    let retention = retention::retention(checker, &mut root, &providers, kinds);
    root.finish(checker);
    let (server, has_public_url) = server?;
    let config = Config {
        server,
        admin: admin?,
        database: database?,
        encryption: encryption?,
        retention,
        providers,
        outbox: outbox?.0,
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

/// One `[providers.NAME]` whose keys are right one by one.
#[derive(Clone, Copy)]
struct Named<'a> {
    name: &'a Name,
    config: &'a ProviderConfig,
    public_url: &'a str,
}

/// The provider, ready; or `None` once everything that its kind finds wrong with it is recorded.
fn activated(
    checker: &mut Checker<'_>,
    place: &Field,
    kinds: &[Provider],
    named: Named<'_>,
) -> Option<ActiveProvider> {
    let kind = kind_of(kinds, named.config)?;
    let ready = kind.activate(named.name, named.config, named.public_url);
    let published = match kind.spec() {
        Ok(spec) if !checker.is_dev => published_mistakes(spec, named.config),
        _ => Vec::new(),
    };
    let mistakes = ready.as_ref().err().into_iter().flatten().chain(&published);
    mistakes.for_each(|mistake| checker.judged(place, mistake));
    ready.ok()
}

/// A sender that signs the URL cannot be believed while nobody told us which URL it was given.
fn check_public_url(checker: &mut Checker<'_>, config: &Config, kinds: &[Provider]) {
    if config.server.listen.ip().is_loopback() {
        return;
    }
    for (name, provider) in &config.providers {
        let spec = kind_of(kinds, provider).and_then(|kind| kind.spec().ok());
        if spec.is_some_and(Spec::has_signed_url) {
            let remedy = format!(
                "provider `{name}` signs the URL: write the one that it was given, without /webhooks/{name}"
            );
            checker.missing("server.public_url".to_owned(), remedy);
        }
    }
}

/// Every key the program asks for when it reads `settings`, and the range of each number; for the test of the manual.
#[cfg(test)]
pub(super) fn asked(
    settings: &Settings,
    kinds: &Kinds,
) -> BTreeMap<String, Option<std::ops::RangeInclusive<u64>>> {
    let sources = ConfigSources::of(settings);
    let root = sources.merged(kinds).unwrap_or_default();
    let mut checker = sources.checker();
    whole(&mut checker, root, kinds, false);
    checker.asked
}
