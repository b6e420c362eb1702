//! Secrets: a text, `{ env = "NAME" }`, `{ file = "PATH" }` or `{ credential = "NAME" }`, read at the start and at a reload.
//!
//! What is read here is never part of a problem: those name the place and the reason only.

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::ValueKind;

use super::field::{Checker, Field};
use super::origin::toml_value;
use super::problem::ConfigProblem;
use super::secret::Secret;

/// Largest secret file. Bytes.
const FILE_BYTES_MAX: u64 = 65_536;
/// Time within which a pipe gives its secret.
const PIPE_WITHIN: Duration = Duration::from_secs(5);
/// The ways to write a secret.
const FORMS: &str = "{ env = \"NAME\" }, { file = \"PATH\" } or { credential = \"NAME\" }";
/// The keys of those that are tables.
const PLACES: [&str; 3] = ["env", "file", "credential"];
/// Variable with the folder in which a service manager puts secrets, each a file: systemd's for `LoadCredential=`.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

impl Field {
    /// A secret that is not empty, from wherever it is.
    pub(crate) fn secret(self, checker: &mut Checker<'_>) -> Option<Secret> {
        let text = match &self.value.kind {
            ValueKind::String(text) if self.is_env_text() && is_reference(text) => {
                self.clone().referred(checker)?
            }
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
                checker.problem(&self, "is not a secret", format!("write a text, {FORMS}"));
                return None;
            }
        };
        checker.read.mark(&self.key, &text);
        if text.trim().is_empty() {
            let remedy = "copy the secret from the sender's dashboard; without one anybody could sign";
            checker.problem(&self, "is an empty secret", remedy);
            return None;
        }
        let odd = if is_reference(&text) {
            Some((
                "is a table within quotes, and is taken for the secret itself",
                "take the quotes away around { … }",
            ))
        } else {
            let remedy = "copy it again without that, unless the sender's own has it, too";
            oddity(&text).map(|why| (why, remedy))
        };
        if let Some((why, remedy)) = odd {
            let (source, key, why, remedy) = (self.source, self.key, why.to_owned(), remedy.to_owned());
            checker.warnings.push(ConfigProblem { source, key, value: None, why, remedy });
        }
        Some(Secret::new(text))
    }

    fn referred(self, checker: &mut Checker<'_>) -> Option<String> {
        let place = self.clone();
        let problems_before = checker.problems.len();
        let mut table = self.table(checker)?;
        // A manual that lists these under every secret would say nothing new.
        let (asked, read) = (checker.asked.clone(), checker.read.clone());
        let env = table.text(checker, "env");
        let file = table.text(checker, "file");
        let credential = table.text(checker, "credential");
        (checker.asked, checker.read) = (asked, read);
        table.finish(checker);
        if checker.problems.len() > problems_before {
            return None;
        }
        let from = match (&env, &file, &credential) {
            (Some((_, name)), None, None) => Some(format!("variable {name}")),
            (None, Some((_, path)), None) => Some(format!("file {path}")),
            (None, None, Some((_, name))) => Some(format!("credential {name}")),
            _ => None,
        };
        checker.read.secret(&place.key, &place.source, from);
        match (env, file, credential) {
            (Some((_, name)), None, None) => from_env(checker, &place, &name),
            (None, Some((_, path)), None) => from_file(checker, &place, &path),
            (None, None, Some((_, name))) => from_credential(checker, &place, &name),
            _ => {
                checker.problem(&place, "names no place, or two", format!("write one of {FORMS}"));
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
    text.map(without_line_end)
}

/// True for a text that is `{ env = "NAME" }` or another place of a secret, as TOML writes it.
fn is_reference(text: &str) -> bool {
    let table = text.trim_start().starts_with('{').then(|| toml_value("", text)).flatten();
    match table.map(|value| value.kind) {
        Some(ValueKind::Table(keys)) => keys.keys().any(|key| PLACES.contains(&key.as_str())),
        _ => false,
    }
}

/// What a copy brings along that no sender signs with: all of its requests would be refused.
fn oddity(text: &str) -> Option<&'static str> {
    if text.contains('\u{feff}') {
        return Some("has a byte order mark in it, which some editors put at the beginning of a file");
    }
    if text.contains("-----BEGIN") || text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    if text.trim() != text {
        return Some("begins or ends with white space");
    }
    text.contains(char::is_control).then_some("is more than one line, or has control characters in it")
}

fn from_file(checker: &mut Checker<'_>, place: &Field, path: &str) -> Option<String> {
    let full = checker.folder.join(path);
    let remedy = "a path is relative to the config file's folder; check it and its rights";
    from_path(checker, place, full, remedy)
}

fn from_credential(checker: &mut Checker<'_>, place: &Field, name: &str) -> Option<String> {
    let is_plain = !name.starts_with('.')
        && (1..=255).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_plain {
        let why = "is not the name of a credential";
        checker.problem(
            place,
            why,
            "write letters, digits, `.`, `_` and `-`, and put the file's path into { file = … }",
        );
        return None;
    }
    let Some(folder) = checker.env.get(CREDENTIALS).filter(|folder| !folder.is_empty()) else {
        let why = format!("is credential `{name}`, and ${CREDENTIALS} is not set");
        let remedy = format!(
            "systemd sets it in a unit with LoadCredential={name}:PATH; elsewhere set it to the folder that has the file `{name}`"
        );
        checker.problem(place, why, remedy);
        return None;
    };
    let full = checker.folder.join(folder).join(name);
    let remedy = format!(
        "credentials are the files of ${CREDENTIALS}: add LoadCredential={name}:PATH to the unit, or a file of this name to the folder"
    );
    from_path(checker, place, full, &remedy)
}

fn from_path(checker: &mut Checker<'_>, place: &Field, full: PathBuf, remedy: &str) -> Option<String> {
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
            checker.problem(place, why, remedy);
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

/// Reads a file, or a pipe to which some program writes secrets: whoever starts us hears when none does.
fn read(path: &Path) -> Result<String, String> {
    let is_pipe = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    if !is_pipe {
        return read_whole(path);
    }
    let (told, read) = std::sync::mpsc::sync_channel(1);
    let pipe = path.to_owned();
    std::thread::spawn(move || told.send(read_whole(&pipe)));
    let silent = |_| format!("it is a pipe to which nobody has written for {} s", PIPE_WITHIN.as_secs());
    read.recv_timeout(PIPE_WITHIN).map_err(silent)?
}

fn read_whole(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_BYTES_MAX) {
        return Err(format!("it is larger than {FILE_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    Ok(without_line_end(text))
}

/// A secret without the line end that editors and `echo` put behind it.
fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_brings_along_is_odd_and_what_senders_give_out_is_not() {
        for (text, part) in [
            (" whsec_1", Some("white space")),
            ("whsec_1\t", Some("white space")),
            ("whsec_1\u{a0}", Some("white space")),
            ("whsec_1\nwhsec_2", Some("more than one line")),
            ("whsec\0_1", Some("control characters")),
            ("\u{feff}whsec_1", Some("byte order mark")),
            ("whsec_1", None),
            ("a pass phrase", None),
            ("-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n", None),
            ("{\n  \"kty\": \"OKP\"\n}\n", None),
        ] {
            let found = oddity(text);
            assert_eq!(found.is_some(), part.is_some(), "{text:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(part.unwrap_or_default()), "{text:?}: {found:?}");
        }
        for (text, want) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("", "")] {
            assert_eq!(without_line_end(text.to_owned()), want);
        }
    }
}
