//! The kinds that a configuration may name: built-in ones, those of the caller, those of `[kinds] folder`.

use std::collections::BTreeSet;
use std::path::Path;

use ::config::ValueKind;

use super::layers::{ConfigSources, Settings};
use hooklatch_core::config::{ConfigProblem, KindsFolder, ProviderConfig, origin_of};
use hooklatch_receive::kind::{TakenNames, read_folder};
use hooklatch_receive::provider::{Kind, KindError, Provider};

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

/// Does the same as [`kinds`], for the folder in these settings.
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
    let root = sources.merged(&[]).ok()?;
    let ValueKind::Table(kinds) = &root.get("kinds")?.kind else { return None };
    let folder = kinds.get("folder")?;
    let ValueKind::String(text) = &folder.kind else { return None };
    let checker = sources.checker();
    let source = origin_of(folder).unwrap_or_else(|| checker.default_source.clone());
    (!text.is_empty()).then(|| KindsFolder { path: checker.folder.join(text), source })
}

/// The kind that `provider` is of.
pub(crate) fn kind_of<'a>(kinds: &'a [Provider], provider: &ProviderConfig) -> Option<&'a Provider> {
    kinds.iter().find(|kind| kind.kind() == provider.kind.as_str())
}
