//! The files of a folder of kinds, with bounds, and the error for one that cannot be read.

use std::io::Read;
use std::path::{Path, PathBuf};

use hooklatch_core::config::{ConfigProblem, KindsFolder};

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
