//! Files beside one another, and the disk that they are on.

use std::path::{Path, PathBuf};

/// Room on a disk. Bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// What a process without special rights can still use.
    pub free_bytes: u64,
    pub all_bytes: u64,
}

impl DiskRoom {
    /// Room on the disk of a file or folder; `None` where the system does not say.
    pub fn of(path: &Path) -> Option<Self> {
        let found = rustix::fs::statvfs(path).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Some(Self { free_bytes: bytes(found.f_bavail), all_bytes: bytes(found.f_blocks) })
    }
}

/// Where a file really is: a database may be a link, and SQLite follows it before it makes the files beside it.
pub fn followed(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The path of a file beside the database that has this ending more.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = followed(path).into_os_string();
    name.push(ending);
    PathBuf::from(name)
}

/// The folder of a file.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_followed_to_the_files_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("it is there");
        let (file, link) = (home.join("x.db"), home.join("link.db"));
        assert_eq!(beside(&file, "-wal"), home.join("x.db-wal"), "even before it is made");
        std::fs::write(&file, [0; 10]).expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        assert_eq!(beside(&link, "-wal"), home.join("x.db-wal"));
        assert_eq!(folder_of(&followed(&link)), home);
        assert_eq!(folder_of(Path::new("x.db")), Path::new("."));
    }

    #[test]
    fn a_disk_has_room_and_what_is_not_there_has_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = DiskRoom::of(folder.path()).expect("linux");
        assert!(0 < room.free_bytes && room.free_bytes <= room.all_bytes, "{room:?}");
        assert_eq!(DiskRoom::of(&folder.path().join("x.db")), None);
    }
}
