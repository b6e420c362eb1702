//! The idempotency keys of commands whose answer has not come yet.
//!
//! A key is drawn at random, and written down with the order before anything is sent. It is forgotten when the server
//! has said what came of it. A person whose command ended without an answer gives it again; the same command then finds
//! what was written down, and sends the same order under the same key. docs/adr/0053.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::Environment;
use crate::load::folder_of_person;

/// Time for which an order that was not answered is taken up again. Below the least time for which servers keep keys.
const KEPT_MS: i64 = 23 * 3_600_000;

/// Where the keys of this person's commands are: `hooklatch/keys` below `XDG_STATE_HOME`, which is `~/.local/state` by
/// default.
pub(crate) fn keys_folder(env: &Environment) -> Option<PathBuf> {
    folder_of_person(env, "XDG_STATE_HOME", ".local/state").map(|folder| folder.join("keys"))
}

/// The keys that are written down.
#[derive(Debug, Clone)]
pub(crate) struct CommandKeys {
    folder: Option<PathBuf>,
    now_ms: i64,
}

/// An order that is about to be sent, with its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PendingOrder {
    /// The idempotency key of every try.
    pub(crate) key: String,
    /// The order as it is sent, each time.
    pub(crate) body: String,
    /// Time when it was written down.
    made_at_ms: i64,
    /// True when an earlier command left it.
    #[serde(skip)]
    pub(crate) is_repeated: bool,
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl CommandKeys {
    pub(crate) fn new(folder: Option<PathBuf>, now_ms: i64) -> Self {
        Self { folder, now_ms }
    }

    /// The order that an earlier command of the same meaning left without an answer.
    pub(crate) fn left(&self, command: &str) -> Option<PendingOrder> {
        let file = self.file(command)?;
        let found: PendingOrder = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        let age_ms = self.now_ms.saturating_sub(found.made_at_ms);
        (0..KEPT_MS).contains(&age_ms).then_some(PendingOrder {
            is_repeated: true,
            file: Some(file),
            ..found
        })
    }

    /// Writes the order down under a new key, or finds the one that was left. `Err(why)` beside it when it could not be
    /// written down.
    pub(crate) fn take(&self, command: &str, body: &str) -> (PendingOrder, Result<(), String>) {
        if let Some(left) = self.left(command) {
            return (left, Ok(()));
        }
        let fresh = PendingOrder {
            key: uuid::Uuid::new_v4().to_string(),
            body: body.to_owned(),
            made_at_ms: self.now_ms,
            is_repeated: false,
            file: None,
        };
        let Some(file) = self.file(command) else {
            return (fresh, Err("neither XDG_STATE_HOME nor HOME is an absolute path".to_owned()));
        };
        match write_down(&file, &fresh) {
            Ok(true) => (PendingOrder { file: Some(file), ..fresh }, Ok(())),
            // Another process was faster; its key is the one.
            Ok(false) => (self.left(command).unwrap_or(fresh), Ok(())),
            Err(error) => (fresh, Err(format!("{}: {error}", file.display()))),
        }
    }

    fn file(&self, command: &str) -> Option<PathBuf> {
        let digest: [u8; 32] = Sha256::digest(command).into();
        Some(self.folder.as_ref()?.join(hex::encode(digest)))
    }
}

impl PendingOrder {
    /// An order under a key that the person named: nothing is written down.
    pub(crate) fn of_person(key: &str, body: &str) -> Self {
        Self { key: key.to_owned(), body: body.to_owned(), made_at_ms: 0, is_repeated: false, file: None }
    }

    /// Forgets it: the server has said what came of it, or never heard of it.
    pub(crate) fn forget(&self) {
        if let Some(file) = &self.file {
            drop(fs::remove_file(file));
        }
    }
}

/// Writes the whole file at once, for the person alone. `false` when one is there that is still good.
fn write_down(file: &Path, order: &PendingOrder) -> std::io::Result<bool> {
    let folder = file.parent().unwrap_or(file);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let draft = folder.join(format!("{}.draft", order.key));
    let mut written = fs::File::options().write(true).create_new(true).mode(0o600).open(&draft)?;
    written.write_all(&serde_json::to_vec(order)?)?;
    written.sync_all()?;
    // Unlike a rename, a link never takes the place of what another process wrote meanwhile.
    let linked = fs::hard_link(&draft, file);
    let done = match linked {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let other =
                fs::read(file).ok().and_then(|text| serde_json::from_slice::<PendingOrder>(&text).ok());
            let is_good =
                other.is_some_and(|other| (0..KEPT_MS).contains(&(order.made_at_ms - other.made_at_ms)));
            // Too old, or no order of ours at all.
            if is_good { Ok(false) } else { fs::rename(&draft, file).map(|()| true) }
        }
        linked => linked.map(|()| true),
    };
    drop(fs::remove_file(&draft));
    done
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn keys(folder: &tempfile::TempDir, now_ms: i64) -> CommandKeys {
        CommandKeys::new(Some(folder.path().join("hooklatch/keys")), now_ms)
    }

    #[test]
    fn a_command_has_one_key_until_its_answer_came() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, written) = keys(&folder, 1_000).take("send m1", "{}");
        assert_eq!((first.is_repeated, written), (false, Ok(())));
        let (again, _) = keys(&folder, 2_000).take("send m1", "{\"counted_n\":2}");
        assert_eq!((&again.key, again.body.as_str(), again.is_repeated), (&first.key, "{}", true));
        let (other, _) = keys(&folder, 2_000).take("send m2", "{}");
        assert_ne!(other.key, first.key);
        again.forget();
        let (new, _) = keys(&folder, 3_000).take("send m1", "{}");
        assert!(new.key != first.key && !new.is_repeated);
        assert_eq!(keys(&folder, 3_000).left("send m1").map(|left| left.key), Some(new.key));
        assert_eq!(keys(&folder, 3_000).left("send m3"), None);
    }

    #[test]
    fn an_order_that_is_too_old_is_not_taken_up_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (first, _) = keys(&folder, 0).take("send m1", "{}");
        assert_eq!(keys(&folder, KEPT_MS - 1).take("send m1", "{}").0.key, first.key);
        let (new, written) = keys(&folder, KEPT_MS).take("send m1", "{}");
        assert!(new.key != first.key && !new.is_repeated && written.is_ok());
        assert_eq!(keys(&folder, KEPT_MS + 1).take("send m1", "{}").0.key, new.key);
    }

    #[test]
    fn what_is_written_down_is_for_its_person_alone_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let (order, _) = keys(&folder, 0).take("send m1", "{}");
        let place = folder.path().join("hooklatch/keys");
        let files: Vec<_> =
            fs::read_dir(&place).expect("a folder").map(|file| file.expect("a file").path()).collect();
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!((files.len(), mode(&place), mode(&files[0])), (1, 0o700, 0o600));
        fs::write(&files[0], "no order").expect("written");
        let (new, written) = keys(&folder, 0).take("send m1", "{}");
        assert!(new.key != order.key && written.is_ok(), "{written:?}");
    }

    #[test]
    fn a_command_without_a_place_for_its_key_says_so_and_goes_on() {
        let (order, written) = CommandKeys::new(None, 0).take("send m1", "{}");
        assert!(!order.key.is_empty() && written.is_err());
        let (order, written) = CommandKeys::new(Some("/dev/null/x".into()), 0).take("send m1", "{}");
        assert!(!order.key.is_empty() && written.expect_err("no folder").contains("/dev/null/x"));
        order.forget();
    }

    #[test]
    fn many_at_once_agree_on_one_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let keys = keys(&folder, 0);
        let all: Vec<String> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..16).map(|_| scope.spawn(|| keys.take("send m1", "{}").0.key)).collect();
            running.into_iter().map(|one| one.join().expect("taken")).collect()
        });
        assert!(all.iter().all(|key| *key == all[0]), "{all:?}");
    }
}
