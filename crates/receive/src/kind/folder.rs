//! Kinds that are read from a folder when the program starts: `[kinds] folder`.
//!
//! What a `provider.toml` has is checked like a built-in one's; every mistake is a problem of the configuration, and
//! one broken kind hides no other. The samples, `vectors.json` and `identity.json` beside it are judged, too.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::pairs::Pair;
use crate::provider::{Kind, Provider, filled_sample};
use crate::vectors::{Judged, judge};
use hooklatch_core::config::{ConfigProblem, KindsFolder};
use hooklatch_core::mistakes::{Flaw, Mistake};
use hooklatch_core::types::{IncomingEvent, Name};
use hooklatch_verify::spec::{Scheme, Spec};
use hooklatch_verify::{DevKeys, SignAt};

/// Most folders of kinds.
pub(super) const FOLDERS_N_MAX: usize = 1_000;
/// Largest file of a kind. Bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

/// The folders in `folder`, sorted; hidden ones, which orchestrators make for themselves, are passed over.
pub(crate) fn names(folder: &Path) -> std::io::Result<Vec<String>> {
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

/// The file of this name beside each kind in `folder` that has one: the kind, the file, its text. Those of `broken`
/// kinds are left alone: what is wrong with them is reported already.
pub(crate) fn beside<'a>(
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

/// A file's text; `None` when there is no such file.
pub(crate) fn text_of(file: &Path) -> Result<Option<String>, ConfigProblem> {
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

/// A problem of this file.
pub(crate) fn problem(
    file: &Path,
    key: &str,
    why: impl Into<String>,
    remedy: impl Into<String>,
) -> ConfigProblem {
    ConfigProblem::new(&file.display().to_string(), key, why, remedy)
}

/// Most samples of one kind.
const SAMPLES_N_MAX: usize = 100;
/// Time at which samples are signed to see whether they are believed. Unix seconds; any time would do.
const SAMPLE_NOW_S: i64 = 1_767_225_600;

/// The kind's sample events, each signed once to see whether it would be believed and read.
pub(crate) fn samples(folder: &Path, kind: &Provider) -> (Vec<(String, String)>, Vec<ConfigProblem>) {
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

/// Signs a sample with the kind's published secret, or with `keys`, and reads its events as admission would; `None`
/// where only the sender can sign.
pub fn sample_events(
    kind: &Provider,
    event_type: &str,
    sample: &str,
    keys: &DevKeys,
) -> Option<Result<Vec<IncomingEvent>, String>> {
    let provider = kind.dev(keys).ok()?;
    let body = filled_sample(sample, "1", SAMPLE_NOW_S);
    let at = SignAt {
        now_s: SAMPLE_NOW_S,
        url: provider.url().to_owned(),
        id: "1".to_owned(),
        event_type: event_type.to_owned(),
    };
    let signed = provider.sign(body.as_bytes(), &at).ok()?;
    let request = signed.request(&at).map_err(|why| why.to_string());
    let verified = request.and_then(|request| {
        let rejected = |why| format!("signed as provider.toml says it is not believed: {why}");
        provider.verify(request).map_err(rejected)
    });
    Some(verified.map(|verified| provider.read(&verified)))
}

/// The type that a signed sample turns out to have; the file's name where only the sender can sign.
fn event_type(kind: &Provider, stem: &str, sample: &str) -> Result<String, String> {
    // Keys that only the sender has are not made for a look at samples.
    let Some(events) = sample_events(kind, stem, sample, &DevKeys::default()) else {
        return Ok(stem.to_owned());
    };
    match events?.first() {
        Some(event) if event.unreadable.is_none() => match event.unidentified() {
            None => Ok(event.event_type.clone()),
            Some(why) => Err(format!("has nothing that identifies it: {why}")),
        },
        Some(event) => Err(format!("cannot be read: {}", event.unreadable.as_deref().unwrap_or_default())),
        None => Err("has no event in it".to_owned()),
    }
}

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
pub fn read_folder(folder: &KindsFolder, taken: &TakenNames<'_>) -> FolderKinds {
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
    let bare = Provider::of_spec(spec);
    let (samples, more) = samples(&folder.join("samples"), &bare);
    problems.extend(more);
    if problems.is_empty() { Ok(bare.with_samples(samples)) } else { Err(problems) }
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

/// Judges the `vectors.json` of every kind in `folder` that has one, but for `broken` ones: how many were judged, and
/// what differs.
pub fn judge_vectors(
    folder: &KindsFolder,
    broken: &[String],
    kinds: &[Provider],
) -> (usize, Vec<ConfigProblem>) {
    let remedy = "write a list of vectors as in providers/README.md";
    judge_files(folder, broken, ("vectors.json", remedy), |name, text| {
        let judged = judge(text, kinds).map_err(|why| format!("is not a list of vectors: {why}"))?;
        let wrong = judged.iter().filter_map(|one| {
            if one.kind != name {
                let why = format!("is about kind `{}`", one.kind);
                return Some((one.id.clone(), why, format!("write \"kind\": \"{name}\"")));
            }
            let remedy = if one.id.starts_with(&format!("{name}-own-")) {
                format!("make it anew with `hooklatch sign {name} --vectors`, or correct provider.toml")
            } else {
                "correct provider.toml, or the vector if the sender never sent this".to_owned()
            };
            let Judged { expect, verdict, step, why, .. } = one;
            let why = format!("is to be `{expect}`, but is `{verdict}` at step `{step}`: {why}");
            one.is_wrong.then(|| (one.id.clone(), why, remedy))
        });
        Ok((judged.len(), wrong.collect()))
    })
}

/// Judges the `identity.json` of every kind in `folder` that has one, but for `broken` ones: how many pairs were
/// judged, and what differs.
pub fn judge_pairs(
    folder: &KindsFolder,
    broken: &[String],
    kinds: &[Provider],
) -> (usize, Vec<ConfigProblem>) {
    let remedy = "write a list of pairs as in providers/README.md";
    judge_files(folder, broken, ("identity.json", remedy), |name, text| {
        let Some(kind) = kinds.iter().find(|kind| kind.kind() == name) else { return Ok((0, Vec::new())) };
        let pairs = Pair::parse_all(text).map_err(|why| format!("is not a list of pairs: {why}"))?;
        let keys = if kind.spec().is_ok_and(Spec::needs_generated_keys) {
            let made = DevKeys::generate().and_then(|text| DevKeys::parse(&text));
            made.ok_or("cannot be judged: no development keys could be made")?
        } else {
            DevKeys::default()
        };
        let provider = kind.dev(&keys)?;
        let wrong = pairs.iter().filter_map(|pair| {
            let why = match pair.judge(kind, &provider) {
                Ok(met) if met == pair.expect => return None,
                Ok(met) => format!("is to be `{}`, but is `{met}`", pair.expect),
                Err(why) => why,
            };
            let remedy = "correct the identity in provider.toml, or the pair if the sender never sends this";
            Some((pair.what.clone(), why, remedy.to_owned()))
        });
        Ok((pairs.len(), wrong.collect()))
    })
}

/// The number of cases in a file, and those of them that are judged otherwise than they say: which, why, and the
/// remedy.
type JudgedFile = (usize, Vec<(String, String, String)>);

/// Judges the file of this name beside each kind, with the remedy for one that cannot be judged.
fn judge_files(
    folder: &KindsFolder,
    broken: &[String],
    (file_name, remedy): (&str, &str),
    judge: impl Fn(&str, &str) -> Result<JudgedFile, String>,
) -> (usize, Vec<ConfigProblem>) {
    let (mut judged_n, mut problems) = (0, Vec::new());
    for (name, file, text) in beside(folder, broken, file_name) {
        match text.map(|text| judge(&name, &text)) {
            Ok(Ok((n, wrong))) => {
                judged_n += n;
                problems
                    .extend(wrong.into_iter().map(|(key, why, remedy)| problem(&file, &key, why, remedy)));
            }
            Ok(Err(why)) => problems.push(problem(&file, "", why, remedy)),
            Err(one) => problems.push(one),
        }
    }
    (judged_n, problems)
}

/// A warning for each kind in `folder` without an `identity.json`, but for `broken` ones.
pub fn without_pairs(folder: &KindsFolder, broken: &[String]) -> Vec<String> {
    let names = names(&folder.path).unwrap_or_default();
    let files = names.into_iter().filter(|name| !broken.contains(name)).map(|name| folder.path.join(name));
    let missing = files.map(|kind| kind.join("identity.json")).filter(|file| !file.exists());
    let warning = |file: PathBuf| {
        format!(
            "{}: is missing: nothing shows which requests of the kind are copies of one event; write two events and a \
             redelivery into it, as providers/README.md says",
            file.display()
        )
    };
    missing.map(warning).collect()
}
