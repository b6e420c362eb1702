//! A small file beside the database that says how far it was: whoever puts an older copy of the database back leaves
//! this one as it is, and so is found out.
//!
//! One line: a word with the version of this format, the installation's id, how often changes were told, when, in unix
//! milliseconds, and whether a process has it `open` or left it `closed`. Its number is written after the database has it on disk (WAL and `synchronous = FULL`), so it never
//! says more than what a power cut leaves. Written beside and renamed: it is whole or as it was before.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::private::{self, WITNESS, WITNESS_PARTIAL};
use crate::disk::beside;
use crate::types::UnixMs;

const OPEN: &str = "open";
const CLOSED: &str = "closed";
const FORMAT: &str = "hooklatch-witness/1";
/// Longest file that is read. Bytes.
const BYTES_MAX: u64 = 256;
/// No installation gets there, and counting goes on above whatever was read.
const CHANGES_N_MAX: i64 = 1 << 53;

/// What the witness says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witnessed {
    /// Id of the installation whose database it was beside.
    pub(crate) installation_id: String,
    /// How often that database had told of changes.
    pub(crate) changes_n: i64,
    /// When it was written.
    pub(crate) at_ms: UnixMs,
    /// True when whoever wrote it changed nothing afterwards.
    pub(crate) is_closed: bool,
}

/// The witness of one database.
pub(in crate::store) struct WitnessFile {
    path: PathBuf,
    partial: PathBuf,
    /// The reason why it could not be written last time.
    failed: Mutex<Option<String>>,
}

/// Whether this writing went otherwise than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum WitnessTurn {
    /// As the time before.
    None,
    /// It went wrong for the first time.
    Fails,
    /// It went well again.
    Recovers,
}

impl WitnessFile {
    /// The one of this database.
    pub(super) fn beside(database: &Path) -> Self {
        Self {
            path: beside(database, WITNESS),
            partial: beside(database, WITNESS_PARTIAL),
            failed: Mutex::default(),
        }
    }

    pub(in crate::store) fn path(&self) -> &Path {
        &self.path
    }

    /// The reason why it could not be written last time, if it could not.
    pub(in crate::store) fn failed(&self) -> Option<String> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it says; nothing where there is none. An error says why it cannot be read.
    pub(in crate::store) fn read(&self) -> Result<Option<Witnessed>, String> {
        let found = match std::fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.to_string()),
            Ok(found) => found,
        };
        if !found.is_file() || found.len() > BYTES_MAX {
            return Err("it is no file of ours".to_owned());
        }
        let mut text = String::new();
        let read = File::open(&self.path).and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        read.map_err(|error| error.to_string())?;
        parsed(&text).map(Some).ok_or_else(|| format!("it is not one line of {FORMAT}"))
    }

    /// Puts it on disk in place of what is there.
    pub(in crate::store) fn write(&self, witnessed: &Witnessed) -> WitnessTurn {
        let failed = self.put(witnessed).err().map(|error| error.to_string());
        let mut before = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = match (before.is_some(), failed.is_some()) {
            (false, true) => WitnessTurn::Fails,
            (true, false) => WitnessTurn::Recovers,
            _ => WitnessTurn::None,
        };
        *before = failed;
        turn
    }

    fn put(&self, witnessed: &Witnessed) -> std::io::Result<()> {
        // What a killed process left, or somebody put there.
        match std::fs::remove_file(&self.partial) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = private::opened_or_made(&self.partial)?;
        file.write_all(line(witnessed).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&self.partial, &self.path)
    }
}

fn line(witnessed: &Witnessed) -> String {
    let Witnessed { installation_id, changes_n, at_ms, is_closed } = witnessed;
    let state = if *is_closed { CLOSED } else { OPEN };
    format!("{FORMAT} {installation_id} {changes_n} {at_ms} {state}\n")
}

fn parsed(text: &str) -> Option<Witnessed> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    if words.next()? != FORMAT {
        return None;
    }
    let (id, changes_n, at_ms) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let is_closed = match words.next()? {
        OPEN => false,
        CLOSED => true,
        _ => return None,
    };
    let is_good = words.next().is_none() && !id.is_empty() && (0..=CHANGES_N_MAX).contains(&changes_n);
    is_good.then(|| Witnessed { installation_id: id.to_owned(), changes_n, at_ms, is_closed })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn witnessed(changes_n: i64) -> Witnessed {
        Witnessed {
            installation_id: "0198c0de".to_owned(),
            changes_n,
            at_ms: 5,
            is_closed: changes_n % 2 == 0,
        }
    }

    #[test]
    fn what_is_written_is_read_and_what_is_not_ours_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = WitnessFile::beside(&folder.path().join("x.db"));
        assert_eq!(file.read(), Ok(None));
        // A file that a killed process left is in nobody's way.
        std::fs::write(&file.partial, "half").unwrap();
        assert_eq!(file.write(&witnessed(7)), WitnessTurn::None);
        assert_eq!(file.read(), Ok(Some(witnessed(7))));
        assert_eq!(std::fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(!file.partial.exists());
        let good = std::fs::read_to_string(&file.path).unwrap();
        for text in [
            String::new(),
            good.trim_end().to_owned(),
            good.replace("/1 ", "/2 "),
            good.replace(" 7 ", " -7 "),
            good.replace(" 7 ", " 9223372036854775807 "),
            good.replace(" 7 ", "  7 "),
            good.replace(" 5", " 5 6"),
            good.replace("open", "opened"),
            good.replace(" open", ""),
            "\u{fffd}".repeat(100),
            " ".repeat(300),
        ] {
            std::fs::write(&file.path, &text).unwrap();
            assert!(file.read().is_err(), "{text}");
        }
        std::fs::write(&file.path, [0xff, 0xfe, b'\n']).unwrap();
        assert!(file.read().is_err());
    }

    #[test]
    fn a_place_where_nothing_can_be_written_is_told_once_and_again_when_it_is_well() {
        let folder = tempfile::tempdir().unwrap();
        let file = WitnessFile::beside(&folder.path().join("x.db"));
        std::fs::create_dir(&file.path).unwrap();
        assert!(file.read().unwrap_err().contains("no file of ours"));
        assert_eq!(file.write(&witnessed(1)), WitnessTurn::Fails);
        assert_eq!(file.write(&witnessed(2)), WitnessTurn::None);
        assert!(file.failed().is_some());
        std::fs::remove_dir(&file.path).unwrap();
        assert_eq!(file.write(&witnessed(3)), WitnessTurn::Recovers);
        assert_eq!((file.failed(), file.read()), (None, Ok(Some(witnessed(3)))));
        // A link would be followed to a file of somebody else.
        std::fs::rename(&file.path, folder.path().join("other")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("other"), &file.path).unwrap();
        assert!(file.read().is_err());
        assert_eq!(file.write(&witnessed(4)), WitnessTurn::None);
        assert_eq!(file.read(), Ok(Some(witnessed(4))));
    }
}
