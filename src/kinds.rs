//! Kinds that are read from a folder when the program starts: `[kinds] folder`. What a `provider.toml` says is
//! checked like a built-in one's; every mistake is a problem of the configuration, and one broken kind hides no
//! other.

mod pairs;
mod vectors;

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::config::{ConfigProblem, KindsFolder, nearest};
use crate::provider::{Provider, filled_sample};
use crate::spec::{Mistake, Scheme, Spec};
use crate::types::Name;
use crate::verify::{DevKeys, SignAt};

pub(crate) use pairs::judge_pairs;
pub(crate) use vectors::judge_vectors;

/// Most folders of kinds.
const FOLDERS_N_MAX: usize = 1_000;
/// Most samples of one kind.
const SAMPLES_N_MAX: usize = 100;
/// Largest file of a kind. Bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// When samples are signed to see whether they are believed. Unix seconds; any time would do.
const SAMPLE_NOW_S: i64 = 1_767_225_600;

/// What a folder of kinds came to.
#[derive(Default)]
pub(crate) struct Found {
    /// The kinds that can be used, by name.
    pub(crate) kinds: Vec<Provider>,
    /// The names of those that cannot.
    pub(crate) broken: Vec<String>,
    /// Why not.
    pub(crate) problems: Vec<ConfigProblem>,
}

/// The names that are taken.
pub(crate) struct Taken<'a> {
    /// Kinds that come with us; a file may say that it replaces one.
    pub(crate) builtin: &'a [String],
    /// Kinds of the program that calls us; they may have handlers, which no file could replace.
    pub(crate) own: &'a [String],
}

/// Reads every kind of `folder`.
pub(crate) fn read(folder: &KindsFolder, taken: &Taken<'_>) -> Found {
    let mut found = Found::default();
    let of_key = |why: String, remedy: &str| ConfigProblem {
        source: folder.source.clone(),
        key: "kinds.folder".to_owned(),
        value: Some(folder.path.display().to_string()),
        why,
        remedy: remedy.to_owned(),
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

/// The file of this name beside each kind in `folder` that has one: the kind, the file, its text. Those of `broken` kinds
/// are left alone: what is wrong with them is told already.
fn beside<'a>(
    folder: &'a KindsFolder,
    broken: &'a [String],
    file_name: &'a str,
) -> impl Iterator<Item = (String, PathBuf, Result<String, ConfigProblem>)> + 'a {
    let names = names(&folder.path).unwrap_or_default();
    let whole = names.into_iter().take(FOLDERS_N_MAX).filter(|name| !broken.contains(name));
    whole.filter_map(move |name| {
        let file = folder.path.join(&name).join(file_name);
        let text = text_of(&file).transpose()?;
        Some((name, file, text))
    })
}

/// The folders in `folder`, sorted; hidden ones, which orchestrators make for themselves, are passed over.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && entry.path().is_dir() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn kind(folder: &Path, name: &str, taken: &Taken<'_>) -> Result<Provider, Vec<ConfigProblem>> {
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
        let told = |mistake: &Mistake| of_mistake(&file, mistake, name);
        mistakes.iter().map(told).collect::<Vec<_>>()
    })?;
    let mut problems: Vec<ConfigProblem> = unfit(&spec, name, taken)
        .into_iter()
        .map(|(key, why, remedy)| problem(&file, key, why, remedy))
        .collect();
    let bare = Provider::read(spec.clone(), Vec::new());
    let (samples, more) = samples(&folder.join("samples"), &bare);
    problems.extend(more);
    if problems.is_empty() { Ok(Provider::read(spec, samples)) } else { Err(problems) }
}

/// What is right in a built-in kind and wrong here: key, why, remedy.
fn unfit(spec: &Spec, name: &str, taken: &Taken<'_>) -> Vec<(&'static str, String, String)> {
    let mut unfit = Vec::new();
    if spec.kind != name {
        let why = format!("is `{}`, but the folder is called `{name}`", spec.kind);
        let remedy = if Name::parse(name).is_ok() {
            format!("write kind = \"{name}\", or rename the folder")
        } else {
            format!("rename the folder to `{}`", spec.kind)
        };
        unfit.push(("kind", why, remedy));
    }
    let is_taken = |names: &[String]| names.contains(&spec.kind);
    match (is_taken(taken.own), is_taken(taken.builtin), spec.replaces_builtin) {
        (true, ..) => unfit.push((
            "kind",
            format!("`{}` is a kind of this program's own code", spec.kind),
            "choose another name; a provider says which kind it is with `kind`".to_owned(),
        )),
        (false, true, false) => unfit.push((
            "kind",
            format!("`{}` is built in", spec.kind),
            "choose another name, or write replaces_builtin = true if this file is to stand in for it"
                .to_owned(),
        )),
        (false, false, true) => unfit.push((
            "replaces_builtin",
            format!("no built-in kind is called `{}`", spec.kind),
            "leave it out".to_owned(),
        )),
        _ => {}
    }
    let alternative = spec.alternative.as_ref().map(|alternative| ("alternative.scheme", alternative.scheme));
    for (key, scheme) in [("signature.scheme", spec.signature.scheme)].into_iter().chain(alternative) {
        if scheme == Scheme::Code {
            let remedy = "use a named scheme; what none of them says needs a mod.rs beside it and a build: \
                          providers/README.md, \"Code beside a kind\"";
            unfit.push((key, "`code` is for kinds with a module in Rust".to_owned(), remedy.to_owned()));
        }
    }
    unfit
}

/// The kind's sample events, each signed once to see whether it would be believed and read.
fn samples(folder: &Path, kind: &Provider) -> (Vec<(String, String)>, Vec<ConfigProblem>) {
    let mut files: Vec<PathBuf> = match std::fs::read_dir(folder) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(_) => return (Vec::new(), Vec::new()),
    };
    files.retain(|file| file.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    if files.len() > SAMPLES_N_MAX {
        let why = format!("has {} samples, at most {SAMPLES_N_MAX} are read", files.len());
        return (Vec::new(), vec![problem(folder, "", why, "take some out")]);
    }
    let (mut samples, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        let text = match text_of(&file) {
            Ok(text) => text.unwrap_or_default(),
            Err(one) => {
                problems.push(one);
                continue;
            }
        };
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match event_type(kind, &stem, &text) {
            Ok(event_type) => samples.push((event_type, text)),
            Err(why) => {
                let remedy = "correct the sample, or where provider.toml looks for the id and the type";
                problems.push(problem(&file, "", why, remedy));
            }
        }
    }
    (samples, problems)
}

/// The type that a signed sample turns out to have; the file's name where nobody but the sender can sign.
fn event_type(kind: &Provider, stem: &str, sample: &str) -> Result<String, String> {
    // Keys that only the sender has are not made for a look at samples.
    let Ok(provider) = kind.dev(&DevKeys::default()) else { return Ok(stem.to_owned()) };
    let body = filled_sample(sample, "1", SAMPLE_NOW_S);
    let at = SignAt {
        now_s: SAMPLE_NOW_S,
        url: provider.url().to_owned(),
        id: "1".to_owned(),
        event_type: stem.to_owned(),
    };
    let Ok(signed) = provider.sign(body.as_bytes(), &at) else { return Ok(stem.to_owned()) };
    let request = signed.request(&at).map_err(|why| why.to_string())?;
    let verified = provider
        .verify(request)
        .map_err(|why| format!("signed as provider.toml says it is not believed: {why}"))?;
    match provider.read(&verified).first() {
        Some(event) if event.unreadable.is_none() => match event.unidentified() {
            None => Ok(event.event_type.clone()),
            Some(why) => Err(format!("has nothing that tells it from others: {why}")),
        },
        Some(event) => Err(format!("cannot be read: {}", event.unreadable.as_deref().unwrap_or_default())),
        None => Err("has no event in it".to_owned()),
    }
}

/// A file's text; `None` when there is no such file.
fn text_of(file: &Path) -> Result<Option<String>, ConfigProblem> {
    let unreadable = |error: &dyn std::fmt::Display| {
        problem(
            file,
            "",
            format!("cannot be read: {error}"),
            "check the file, its rights and that it is UTF-8",
        )
    };
    match std::fs::metadata(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
        // A pipe would never end.
        Ok(about) if !about.is_file() => return Err(unreadable(&"it is not a file")),
        Ok(_) => {}
    }
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(|error| unreadable(&error))?;
    opened.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        let why = format!("is larger than {} KiB", FILE_BYTES_MAX / 1024);
        return Err(problem(file, "", why, "make it smaller: a kind is a page of text"));
    }
    Ok(Some(text))
}

fn of_mistake(file: &Path, mistake: &Mistake, name: &str) -> ConfigProblem {
    let line = mistake.line.map(|line| format!("line {line}: ")).unwrap_or_default();
    let (why, expected) = mistake.why.split_once(", expected ").unwrap_or((mistake.why.as_str(), ""));
    let unknown = why.strip_prefix("unknown field `").map(|rest| rest.trim_end_matches('`'));
    let known = || expected.split('`').skip(1).step_by(2);
    let remedy = match (unknown, why) {
        (Some(unknown), _) => match nearest(unknown, known()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known here: {}", known().collect::<Vec<_>>().join(", ")),
        },
        (None, "is missing") if mistake.key == "kind" => {
            format!("write kind = \"{name}\", the folder's name")
        }
        (None, "is missing") => "write it; providers/README.md says what it means".to_owned(),
        (None, _) if !expected.is_empty() => format!("write {}", in_words(expected)),
        (None, _) => "correct it; providers/README.md says what each key means".to_owned(),
    };
    problem(file, &mistake.key, format!("{line}{why}"), remedy)
}

/// What is expected of a value, for people who know TOML and no Rust.
fn in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not below 0",
        "i64" => "a whole number",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        "a map" => "a table",
        other => other,
    }
}

fn problem(file: &Path, key: &str, why: impl Into<String>, remedy: impl Into<String>) -> ConfigProblem {
    ConfigProblem {
        source: file.display().to_string(),
        key: key.to_owned(),
        value: None,
        why: why.into(),
        remedy: remedy.into(),
    }
}
