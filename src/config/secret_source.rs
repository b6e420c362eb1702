//! Secrets: a text, `{ env = "NAME" }` or `{ file = "PATH" }`, read once at the start.
//!
//! What is read here is never part of a problem: those name the place and the reason only.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use config::ValueKind;

use super::field::{Checker, Field};
use super::problem::ConfigProblem;
use super::secret::Secret;

/// Largest secret file. Bytes.
const FILE_BYTES_MAX: u64 = 65_536;

impl Field {
    /// A secret that is not empty, from wherever it is.
    pub(crate) fn secret(self, checker: &mut Checker<'_>) -> Option<Secret> {
        let text = match &self.value.kind {
            ValueKind::String(text) => {
                // Where the source is a variable, there is no such file. An address without a user opens nothing.
                if !text.contains("://") || text.contains('@') {
                    checker.secret_files.insert(PathBuf::from(&self.source));
                }
                checker.read.secret(&self.key, &self.source, None);
                text.clone()
            }
            ValueKind::Table(_) => self.clone().referred(checker)?,
            _ => {
                checker.problem(
                    &self,
                    "is not a secret",
                    "write a text, { env = \"NAME\" } or { file = \"PATH\" }",
                );
                return None;
            }
        };
        if text.trim().is_empty() {
            let remedy = "copy the secret from the sender's dashboard; without one anybody could sign";
            checker.problem(&self, "is an empty secret", remedy);
            return None;
        }
        Some(Secret::new(text))
    }

    fn referred(self, checker: &mut Checker<'_>) -> Option<String> {
        let place = self.clone();
        let problems_before = checker.problems.len();
        let mut table = self.table(checker)?;
        // A manual that lists `env` and `file` under every secret would say nothing new.
        let (asked, read) = (checker.asked.clone(), checker.read.clone());
        let env = table.text(checker, "env");
        let file = table.text(checker, "file");
        (checker.asked, checker.read) = (asked, read);
        table.finish(checker);
        if checker.problems.len() > problems_before {
            return None;
        }
        let from = match (&env, &file) {
            (Some((_, name)), None) => Some(format!("variable {name}")),
            (None, Some((_, path))) => Some(format!("file {path}")),
            _ => None,
        };
        checker.read.secret(&place.key, &place.source, from);
        match (env, file) {
            (Some((_, name)), None) => from_env(checker, &place, &name),
            (None, Some((_, path))) => from_file(checker, &place, &path),
            _ => {
                let remedy = "write either { env = \"NAME\" } or { file = \"PATH\" }";
                checker.problem(&place, "names no place, or two", remedy);
                None
            }
        }
    }
}

fn from_env(checker: &mut Checker<'_>, place: &Field, name: &str) -> Option<String> {
    let text = checker.env.get(name).map(str::to_owned);
    match &text {
        None => {
            let remedy = format!("set it where Hooklatch is started: export {name}=…");
            checker.problem(place, format!("environment variable `{name}` is not set"), remedy);
        }
        Some(text) if text.trim().is_empty() => {
            let why = format!("environment variable `{name}` is an empty secret");
            checker.problem(place, why, format!("give `{name}` a value"));
            return None;
        }
        Some(_) => {}
    }
    text
}

fn from_file(checker: &mut Checker<'_>, place: &Field, path: &str) -> Option<String> {
    let full = checker.folder.join(path);
    match read(&full) {
        Ok(text) if text.trim().is_empty() => {
            let why = format!("file `{}` holds an empty secret", full.display());
            checker.problem(place, why, "write the secret into the file");
            None
        }
        Ok(text) => {
            checker.secret_files.insert(full);
            Some(text)
        }
        Err(why) => {
            let why = format!("file `{}` cannot be read: {why}", full.display());
            checker.problem(
                place,
                why,
                "a path is relative to the config file's folder; check it and its rights",
            );
            None
        }
    }
}

/// A warning about a file with secrets that everybody on the machine can read: it, and every folder above it, is open
/// to all.
pub(crate) fn open_to_all(path: &Path) -> Option<ConfigProblem> {
    const READ: u32 = 0o004;
    const ENTER: u32 = 0o001;
    let real = path.canonicalize().ok()?;
    let has = |path: &Path, right| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & right != 0)
    };
    let is_open = has(&real, READ) && real.ancestors().skip(1).all(|folder| has(folder, ENTER));
    is_open.then(|| ConfigProblem {
        source: path.display().to_string(),
        key: String::new(),
        value: None,
        why: "holds secrets and can be read by everybody on this machine".to_owned(),
        remedy: "chmod 600 it, or 640 for a group".to_owned(),
    })
}

fn read(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}
