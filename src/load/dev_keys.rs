//! The keys with which `serve --dev` and `sign` play senders that have private ones: made once for a working
//! directory, for its owner alone to read.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::provider::Provider;
use crate::verify::DevKeys;

/// Name of the folder that the database of `serve --dev` is in, too.
const FOLDER: &str = ".hooklatch";
const FILE: &str = "dev_keys.pem";

/// The keys of the working directory, where one of `kinds` needs any.
pub(crate) fn of_folder(kinds: &[Provider]) -> io::Result<DevKeys> {
    let needs = |kind: &Provider| kind.spec().is_ok_and(crate::spec::Spec::needs_generated_keys);
    if kinds.iter().any(needs) { kept(Path::new(FOLDER)) } else { Ok(DevKeys::default()) }
}

/// The keys in `folder`, made there when there are none.
fn kept(folder: &Path) -> io::Result<DevKeys> {
    let path = folder.join(FILE);
    if !path.exists() {
        make(folder, &path)?;
    }
    let unreadable = || {
        let why = format!("`{}` holds no development keys: remove it, and others are made", path.display());
        io::Error::other(why)
    };
    DevKeys::parse(&fs::read_to_string(&path)?).ok_or_else(unreadable)
}

/// Written whole under another name first, so that a process that starts at the same time reads all of it, and linked,
/// so that the first one stays.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    let text = DevKeys::generate().ok_or_else(|| io::Error::other("the system has no random numbers"))?;
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!("{FILE}.{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(text.as_bytes())?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn keys_are_made_once_and_are_for_their_owner_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(FILE);
        kept(folder.path()).expect("made");
        let first = fs::read_to_string(&path).expect("a file");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
        make(folder.path(), &path).expect("another start");
        kept(folder.path()).expect("kept");
        assert_eq!(fs::read_to_string(&path).expect("a file"), first);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        fs::write(&path, "no keys").expect("written");
        assert!(kept(folder.path()).expect_err("unreadable").to_string().contains("remove it"));
    }
}
