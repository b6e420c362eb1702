//! The database's files are for us alone: customers' data is in them. Only on Unix; elsewhere the folder has to see to
//! it.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use tracing::warn;

use crate::disk::{beside, folder_of};

/// Read and written by their owner.
const MODE: u32 = 0o600;
/// Rights of everybody on the machine.
const OTHERS: u32 = 0o007;

/// Endings of the witness, and of one that is being written.
pub(super) const WITNESS: &str = ".witness";
pub(super) const WITNESS_PARTIAL: &str = ".witness.partial";

/// Returns how a file is made that is not there yet, whatever the umask allows.
pub(super) fn options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).read(true).write(true).truncate(false).mode(MODE);
    options
}

/// Opens a file, and makes it if it is missing. What root makes by hand in the folder of a service belongs to that service,
/// which could not open it otherwise. No link is followed to what is given away: it is new.
pub(super) fn opened_or_made(path: &Path) -> io::Result<File> {
    let made = match options().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return options().open(path),
        made => made?,
    };
    let owner = std::fs::metadata(folder_of(path)).ok().filter(|_| rustix::process::geteuid().is_root());
    if let Some(owner) = owner.filter(|owner| owner.uid() != 0)
        && let Err(error) = fchown(&made, Some(owner.uid()), Some(owner.gid()))
    {
        warn!(file = %path.display(), %error, "could not give this file to the owner of its folder");
    }
    Ok(made)
}

/// Takes away the rights to the database's files that an earlier version, or a copy, gave to others. SQLite gives its
/// other files the rights that the database has. A file that its group may read was meant so, and stays.
pub(super) fn keep(path: &Path) {
    for ending in ["", "-wal", "-shm", ".lock", WITNESS] {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;

    use super::*;

    #[test]
    fn what_root_makes_in_the_folder_of_a_service_belongs_to_the_service() {
        /// Nobody's, here and elsewhere.
        const SERVICE: u32 = 54_321;
        let folder = tempfile::tempdir().unwrap();
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(folder.path(), Some(SERVICE), Some(SERVICE)).unwrap();
        }
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        std::fs::write(&old, "old").unwrap();
        for path in [&new, &old] {
            drop(opened_or_made(path).unwrap());
        }
        let owner = |path| std::fs::metadata(path).unwrap().uid();
        assert_eq!(owner(&new), if is_root { SERVICE } else { owner(&old) });
        assert_ne!(owner(&old), SERVICE, "what was there stays whose it was");
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "old");
    }
}
