//! Kinds that are read from a folder when the program starts: `[kinds] folder`. What a `provider.toml` says is
//! checked like a built-in one's; every mistake is a problem of the configuration, and one broken kind hides no
//! other.

use std::path::Path;

use super::files::{FOLDERS_N_MAX, names, problem, text_of};
use super::samples::samples;
use crate::provider::Provider;
use hooklatch_core::config::{ConfigProblem, KindsFolder};
use hooklatch_core::mistakes::{Flaw, Mistake};
use hooklatch_core::types::Name;
use hooklatch_verify::spec::{Scheme, Spec};

/// The kinds of a folder, good and bad.
#[derive(Default)]
pub struct FolderKinds {
    /// The kinds that can be used, by name.
    pub kinds: Vec<Provider>,
    /// The names of those that cannot.
    pub broken: Vec<String>,
    /// Everything that is wrong with those.
    pub problems: Vec<ConfigProblem>,
}

/// The names that are taken.
pub struct TakenNames<'a> {
    /// Built-in kinds; a file may say that it replaces one.
    pub builtin: &'a [String],
    /// Kinds of the program that calls us; they may have handlers, which no file could replace.
    pub own: &'a [String],
}

/// Reads every kind of `folder`.
pub fn read(folder: &KindsFolder, taken: &TakenNames<'_>) -> FolderKinds {
    let mut found = FolderKinds::default();
    let of_key = |why: String, remedy: &str| ConfigProblem {
        value: Some(folder.path.display().to_string()),
        ..ConfigProblem::new(&folder.source, "kinds.folder", why, remedy)
    };
    let names = match names(&folder.path) {
        Ok(names) => names,
        Err(error) => {
            let remedy = "make the folder, correct the path (relative to the config file), or its rights";
            found.problems.push(of_key(format!("cannot be read: {error}"), remedy));
            return found;
        }
    };
    if names.len() > FOLDERS_N_MAX {
        let why = format!("has {} folders, at most {FOLDERS_N_MAX} are read", names.len());
        found.problems.push(of_key(why, "take out what is not used"));
        return found;
    }
    for name in names {
        match kind(&folder.path.join(&name), &name, taken) {
            Ok(kind) => found.kinds.push(kind),
            Err(problems) => {
                found.problems.extend(problems);
                found.broken.push(name);
            }
        }
    }
    found
}

fn kind(folder: &Path, name: &str, taken: &TakenNames<'_>) -> Result<Provider, Vec<ConfigProblem>> {
    let file = folder.join("provider.toml");
    let text = match text_of(&file) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let why = "is missing: every folder here is a kind";
            let remedy = "write it (providers/README.md says how), or move the folder away";
            return Err(vec![problem(&file, "", why, remedy)]);
        }
        Err(one) => return Err(vec![one]),
    };
    let spec = Spec::parse_all(&text).map_err(|mistakes| {
        let to_problem = |mistake: &Mistake| of_mistake(&file, mistake, name);
        mistakes.iter().map(to_problem).collect::<Vec<_>>()
    })?;
    let to_problem = |mistake: &Mistake| ConfigProblem::of(&file.display().to_string(), mistake);
    let mut problems: Vec<ConfigProblem> = unfit(&spec, name, taken).iter().map(to_problem).collect();
    let bare = Provider::read(spec.clone(), Vec::new());
    let (samples, more) = samples(&folder.join("samples"), &bare);
    problems.extend(more);
    if problems.is_empty() { Ok(Provider::read(spec, samples)) } else { Err(problems) }
}

/// Mistakes in a kind of a folder that would be none in a built-in one.
fn unfit(spec: &Spec, name: &str, taken: &TakenNames<'_>) -> Vec<Mistake> {
    let mut unfit = Vec::new();
    if spec.kind != name {
        let why = format!("is `{}`, but the folder is called `{name}`", spec.kind);
        let remedy = if Name::parse(name).is_ok() {
            format!("write kind = \"{name}\", or rename the folder")
        } else {
            format!("rename the folder to `{}`", spec.kind)
        };
        unfit.push(Mistake::said("kind", why, remedy));
    }
    let is_taken = |names: &[String]| names.contains(&spec.kind);
    match (is_taken(taken.own), is_taken(taken.builtin), spec.replaces_builtin) {
        (true, ..) => unfit.push(Mistake::said(
            "kind",
            format!("`{}` is a kind of this program's own code", spec.kind),
            "choose another name; a provider says which kind it is with `kind`",
        )),
        (false, true, false) => unfit.push(Mistake::said(
            "kind",
            format!("`{}` is built in", spec.kind),
            "choose another name, or write replaces_builtin = true if this file is to stand in for it",
        )),
        (false, false, true) => unfit.push(Mistake::said(
            "replaces_builtin",
            format!("no built-in kind is called `{}`", spec.kind),
            "leave it out",
        )),
        _ => {}
    }
    let alternative = spec.alternative.as_ref().map(|alternative| ("alternative.scheme", alternative.scheme));
    let schemes = [("signature.scheme", spec.signature.scheme)].into_iter().chain(alternative);
    for (key, _) in schemes.filter(|(_, scheme)| *scheme == Scheme::Code) {
        let remedy = "use a named scheme; what none of them says needs a mod.rs beside it and a build: \
                      providers/README.md, \"Code beside a kind\"";
        unfit.push(Mistake::said(key, "`code` is for kinds with a module in Rust", remedy));
    }
    unfit
}

/// The mistake in this file. Only the folder says what its kind is to be called.
fn of_mistake(file: &Path, mistake: &Mistake, name: &str) -> ConfigProblem {
    let reported = ConfigProblem::of(&file.display().to_string(), mistake);
    if mistake.key == "kind" && mistake.flaw == Flaw::Missing {
        return ConfigProblem { remedy: format!("write kind = \"{name}\", the folder's name"), ..reported };
    }
    reported
}
