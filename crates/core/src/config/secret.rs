//! Secrets that no log line shows: a text, `{ env = "NAME" }`, `{ file = "PATH" }` or `{ credential = "NAME" }`, read
//! at the start and at a reload.
//!
//! What is read here is never part of a problem: those name the place and the reason only.

use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use config::ValueKind;
use subtle::ConstantTimeEq;

use super::reader::{Field, FromField, toml_value};
use super::report::ConfigProblem;

/// Largest secret file. Bytes.
const FILE_BYTES_MAX: u64 = 65_536;
/// Time within which a pipe gives its secret.
const PIPE_WITHIN: Duration = Duration::from_secs(5);
/// The ways to write a secret.
pub const SECRET_FORMS: &str = "a text, { env = \"NAME\" }, { file = \"PATH\" } or { credential = \"NAME\" }";
/// The keys of those that are tables.
const PLACES: [&str; 3] = ["env", "file", "credential"];
/// Variable with the folder in which a service manager puts secrets, each a file: systemd's for `LoadCredential=`.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// A secret text. It prints as `[secret]`, and is compared by [`Secret::is`] alone:
///
/// ```compile_fail,E0369
/// # use hooklatch::config::Secret;
/// let is_same = Secret::new("a") == Secret::new("a");
/// ```
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text that must not be shown.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one who needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// True when it is `given`; the time that this takes says nothing about where the two differ.
    pub fn is(&self, given: impl AsRef<[u8]>) -> bool {
        self.0.as_bytes().ct_eq(given.as_ref()).into()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// A secret that is not empty, from wherever it is.
impl FromField for Secret {
    fn read(field: &Field<'_>) -> Option<Self> {
        let text = match &field.value.kind {
            ValueKind::String(text) if !(field.is_env_text() && is_reference(text)) => {
                let mut found = field.checker.found();
                // Where the source is a variable, there is no such file. An address without a user opens nothing.
                if !text.contains("://") || text.contains('@') {
                    found.secret_files.insert(PathBuf::from(&field.source));
                }
                found.read.secret(&field.key, &field.source, None);
                text.clone()
            }
            ValueKind::String(_) | ValueKind::Table(_) => referred(field)?,
            _ => {
                field.problem("is not a secret", format!("write {SECRET_FORMS}"));
                return None;
            }
        };
        field.checker.found().read.mark(&field.key, &text);
        if text.trim().is_empty() {
            let remedy = "copy the secret from the sender's dashboard; without one anybody could sign";
            field.problem("is an empty secret", remedy);
            return None;
        }
        if is_reference(&text) {
            let why = "is a table within quotes, and is taken for the secret itself";
            field.warn(None, why, "take the quotes away around { … }");
        } else if let Some(why) = oddity(&text) {
            field.warn(None, why, "copy it again without that, unless the sender's own has it, too");
        }
        Some(Self(text))
    }
}

impl Field<'_> {
    /// A secret that is not empty, from wherever it is.
    pub fn secret(&self) -> Option<Secret> {
        Secret::read(self)
    }
}

/// The secret that stands in a place that `field` names.
fn referred(field: &Field<'_>) -> Option<String> {
    let checker = field.checker;
    let problems_before = checker.problems_n();
    // A manual that lists these under every secret would say nothing new.
    let asked = checker.found().asked.clone();
    let read = checker.found().read.clone();
    let names = field.section(|table| PLACES.map(|place| table.get::<String>(place)))?;
    checker.found().asked = asked;
    checker.found().read = read;
    if checker.problems_n() > problems_before {
        return None;
    }
    let named: Vec<_> =
        PLACES.into_iter().zip(names).filter_map(|(place, name)| Some((place, name?))).collect();
    let [(place, name)] = named.as_slice() else {
        checker.found().read.secret(&field.key, &field.source, None);
        let forms = SECRET_FORMS.trim_start_matches("a text, ");
        field.problem("names no place, or two", format!("write one of {forms}"));
        return None;
    };
    let secret_in = format!("{} {name}", if *place == "env" { "variable" } else { place });
    checker.found().read.secret(&field.key, &field.source, Some(secret_in));
    let found = match *place {
        "env" => from_env(field, name),
        "file" => {
            let remedy = "a path is relative to the config file's folder; check it and its rights";
            from_path(field, checker.folder.join(name), remedy.to_owned())
        }
        _ => from_credential(field, name),
    };
    found.map_err(|(why, remedy)| field.problem(why, remedy)).ok()
}

/// A secret, or why there is none and what to do about it.
type Found = Result<String, (String, String)>;

fn from_env(field: &Field<'_>, name: &str) -> Found {
    let text = field.checker.env.get(name).ok_or_else(|| {
        let remedy = format!("set it where Hooklatch is started: export {name}=…");
        (format!("environment variable `{name}` is not set"), remedy)
    })?;
    if text.trim().is_empty() {
        let why = format!("environment variable `{name}` is an empty secret");
        return Err((why, format!("give `{name}` a value")));
    }
    Ok(without_line_end(text.to_owned()))
}

fn from_credential(field: &Field<'_>, name: &str) -> Found {
    let is_plain = !name.starts_with('.')
        && (1..=255).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !is_plain {
        let remedy = "write letters, digits, `.`, `_` and `-`, and put the file's path into { file = … }";
        return Err(("is not the name of a credential".to_owned(), remedy.to_owned()));
    }
    let folder = field.checker.env.get(CREDENTIALS).filter(|folder| !folder.is_empty()).ok_or_else(|| {
        let remedy = format!(
            "systemd sets it in a unit with LoadCredential={name}:PATH; elsewhere set it to the folder that has the file `{name}`"
        );
        (format!("is credential `{name}`, and ${CREDENTIALS} is not set"), remedy)
    })?;
    let remedy = format!(
        "credentials are the files of ${CREDENTIALS}: add LoadCredential={name}:PATH to the unit, or a file of this name to the folder"
    );
    from_path(field, field.checker.folder.join(folder).join(name), remedy)
}

fn from_path(field: &Field<'_>, path: PathBuf, remedy: String) -> Found {
    let shown = path.display();
    let text = read(&path).map_err(|why| (format!("file `{shown}` cannot be read: {why}"), remedy))?;
    if text.trim().is_empty() {
        let why = format!("file `{shown}` holds an empty secret");
        return Err((why, "write the secret into the file".to_owned()));
    }
    field.checker.found().secret_files.insert(path);
    Ok(text)
}

/// True for the keys of a table that names the place of a secret, such as `{ env = "NAME" }`: it is one value.
pub fn is_secret_place<'k>(keys: impl IntoIterator<Item = &'k String>) -> bool {
    let mut keys = keys.into_iter().peekable();
    keys.peek().is_some() && keys.all(|key| PLACES.contains(&key.as_str()))
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

/// A warning about a file with secrets that every user of the machine can read: it, and every folder above it, is open
/// to all.
pub fn open_to_all(path: &Path) -> Option<ConfigProblem> {
    const READ: u32 = 0o004;
    const ENTER: u32 = 0o001;
    let real = path.canonicalize().ok()?;
    let has = |path: &Path, right| {
        std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & right != 0)
    };
    let is_open = has(&real, READ) && real.ancestors().skip(1).all(|folder| has(folder, ENTER));
    let why = "holds secrets and can be read by everybody on this machine";
    is_open
        .then(|| ConfigProblem::new(&path.display().to_string(), "", why, "chmod 600 it, or 640 for a group"))
}

/// Reads a file, or a pipe to which some program writes secrets: a start fails when none does.
fn read(path: &Path) -> Result<String, String> {
    if !std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return read_whole(path);
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let pipe = path.to_owned();
    std::thread::spawn(move || sender.send(read_whole(&pipe)));
    let silent = |_| format!("it is a pipe to which nobody has written for {} s", PIPE_WITHIN.as_secs());
    receiver.recv_timeout(PIPE_WITHIN).map_err(silent)?
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
    let end = ["\r\n", "\n"].into_iter().find(|end| text.ends_with(end)).unwrap_or_default();
    text.truncate(text.len() - end.len());
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
