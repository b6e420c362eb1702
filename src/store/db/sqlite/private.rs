//! The database's files are for us alone: customers' data is in them. Only on Unix; elsewhere the folder has to see to
//! it.

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

/// Read and written by their owner.
const MODE: u32 = 0o600;
/// Rights of everybody on the machine.
const OTHERS: u32 = 0o007;

/// Returns how a file is made that is not there yet, whatever the umask allows.
pub(super) fn options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true).truncate(false).mode(MODE);
    options
}

/// The path of a file beside the database. SQLite follows a link to its file, so these do.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.canonicalize().unwrap_or_else(|_| path.to_owned()).into_os_string();
    name.push(ending);
    PathBuf::from(name)
}

/// Makes the database's file if it is missing, and takes away the rights to it that an earlier version, or a copy, gave
/// to others. SQLite gives its other files the rights that this one has. A file that its group may read was meant so,
/// and stays.
pub(super) fn keep(path: &Path) {
    // If the file cannot be made, SQLite says why in a moment.
    drop(options().open(path));
    for ending in ["", "-wal", "-shm", ".lock"] {
        let file = beside(path, ending);
        let Ok(found) = std::fs::metadata(&file) else { continue };
        if found.permissions().mode() & OTHERS == 0 {
            continue;
        }
        match std::fs::set_permissions(&file, Permissions::from_mode(MODE)) {
            Ok(()) => {
                warn!(file = %file.display(), "everybody could read this file of the database; now only we can");
            }
            Err(error) => {
                warn!(file = %file.display(), %error, "everybody can read this file of the database; make it 0600");
            }
        }
    }
}
