//! SQLite's file, the log beside it, and the disk that they are on.

use std::path::Path;

use super::check::{BLOAT, DISK, FILE, PAGES, SETTINGS, WAL, or_well};
use hooklatch_contract::FindingView;
use hooklatch_core::disk::{DiskRoom, beside, folder_of, followed};
use hooklatch_store::{FileState, broken_pragmas};

/// Length of the log. Bytes.
const WAL_BYTES: u64 = 256 << 20;
/// A file of this length of which more than half is free. Bytes.
const LARGE_BYTES: i64 = 1 << 30;
/// Room that is left on the disk, below which it is a warning, and a failure. Bytes.
const FREE_BYTES: [u64; 2] = [2 << 30, 256 << 20];
/// The same as parts of the disk. Percent.
const FREE_PERCENT: [u64; 2] = [10, 2];

pub(crate) fn file(state: &FileState) -> Vec<FindingView> {
    let wal_bytes = std::fs::metadata(beside(&state.path, "-wal")).map_or(0, |found| found.len());
    judged(state, wal_bytes)
}

/// Whether the file that is open is the one at its path; `moved` says why not.
pub(super) fn at_its_path(path: &Path, moved: Option<&str>) -> FindingView {
    match moved {
        None => FILE.well(format!("`{}`", path.display())),
        Some(what) => FILE.failure(what).cure(
            "if the files were moved, stop the server, put the database and its -wal back to where they were, and start it; if \
             they were deleted, copy them from /proc/PID/fd before you stop it; if a copy was put into the file, stop the \
             server and ask `hooklatch restore-check` (docs/backup.md)",
        ),
    }
}

/// Findings about the disk that the file at `path` is on. It does not query the database, which may not answer on a
/// full disk.
pub(super) fn disk_of(path: &Path) -> Vec<FindingView> {
    let folder = followed(folder_of(&followed(path)));
    vec![match DiskRoom::of(&folder) {
        Some(room) => disk(room, &folder),
        None => DISK.unknown(format!("the disk of `{}` cannot be looked at", folder.display())),
    }]
}

fn judged(state: &FileState, wal_bytes: u64) -> Vec<FindingView> {
    let broken = broken_pragmas(&state.journal, state.synchronous).into_iter().map(|rule| {
        let why = SETTINGS.failure(format!("{} = {}", rule.name, rule.value)).about(rule.name);
        why.against(rule.bound).cure(rule.remedy)
    });
    let found: Vec<FindingView> = broken.collect();
    let mut findings = or_well(found, || SETTINGS.well("journal_mode = wal, synchronous = FULL"));
    let words = format!("{} MiB", wal_bytes >> 20);
    let remedy =
        "look for what holds the file open beside Hooklatch (lsof), such as a backup that does not end";
    findings.push(WAL.graded(words, (wal_bytes > WAL_BYTES, false), remedy));
    let is_empty = state.bytes > LARGE_BYTES && state.free_bytes > state.bytes / 2;
    let words = format!("{} of {} MiB are free", state.free_bytes >> 20, state.bytes >> 20);
    findings.push(BLOAT.graded(
        words,
        (is_empty, false),
        "hooklatch prune gives it back a little at a time; VACUUM does at once, while Hooklatch is stopped",
    ));
    findings
}

fn disk(DiskRoom { free_bytes, all_bytes }: DiskRoom, folder: &Path) -> FindingView {
    let percent = free_bytes.saturating_mul(100).checked_div(all_bytes).unwrap_or(100);
    let is_below = |bytes: u64, percent_min: u64| {
        // A large disk may be rather full, a small one has to have some part left.
        free_bytes < bytes || (percent < percent_min && free_bytes < bytes.saturating_mul(10))
    };
    let [warns, fails] = FREE_BYTES;
    let [warns_percent, fails_percent] = FREE_PERCENT;
    let words = format!("{} MiB, {percent} %, are free where `{}` is", free_bytes >> 20, folder.display());
    let grade = (is_below(warns, warns_percent), is_below(fails, fails_percent));
    DISK.graded(words, grade, "make room, or shorten [retention]")
}

/// What is wrong with the pages of the file.
pub(crate) fn pages(mistakes: &[String]) -> Vec<FindingView> {
    let bad = |text: &String| {
        PAGES.failure(text.clone()).cure("stop Hooklatch, keep the file, restore from a backup, then ask the senders again for what came since")
    };
    or_well(mistakes.iter().map(bad).collect(), || PAGES.well("every page is whole"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{self, Failure, Warning};

    fn bad(found: &[FindingView]) -> Vec<(&str, FindingVerdict)> {
        found.iter().filter(|one| one.is_bad()).map(|one| (one.check.as_str(), one.verdict)).collect()
    }

    #[test]
    fn a_file_that_could_lose_commits_grows_or_is_mostly_empty_is_reported() {
        let good =
            FileState { journal: "wal".to_owned(), synchronous: 2, bytes: 4 << 30, ..FileState::default() };
        for (state, wal_bytes, want) in [
            (good.clone(), 0, None),
            (
                FileState { journal: "delete".to_owned(), ..good.clone() },
                0,
                Some(("database.settings", Failure)),
            ),
            (FileState { synchronous: 1, ..good.clone() }, 0, Some(("database.settings", Failure))),
            (good.clone(), 300 << 20, Some(("database.wal", Warning))),
            (FileState { free_bytes: 3 << 30, ..good.clone() }, 0, Some(("database.bloat", Warning))),
        ] {
            assert_eq!(bad(&judged(&state, wal_bytes)), want.into_iter().collect::<Vec<_>>(), "{state:?}");
        }
        assert_eq!(bad(&pages(&["row 3 missing".to_owned()])), [("database.pages", Failure)]);
        assert_eq!(bad(&pages(&[])), []);
    }

    #[test]
    fn a_disk_is_judged_by_what_is_left_and_by_its_part() {
        let gib = 1_u64 << 30;
        for (free_bytes, all_bytes, want) in [
            (100 * gib, 1_000 * gib, None),
            (50 * gib, 1_000 * gib, None),
            (15 * gib, 1_000 * gib, Some(Warning)),
            (gib, 4 * gib, Some(Warning)),
            (gib / 8, 4 * gib, Some(Failure)),
            (gib, 1_000 * gib, Some(Failure)),
        ] {
            let found = [disk(DiskRoom { free_bytes, all_bytes }, Path::new("/x"))];
            let verdicts: Vec<FindingVerdict> = bad(&found).into_iter().map(|(_, verdict)| verdict).collect();
            assert_eq!(verdicts, want.into_iter().collect::<Vec<_>>(), "{free_bytes} of {all_bytes}");
        }
    }
}
