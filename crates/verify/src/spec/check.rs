//! Helpers shared by the checks of several tables.

use hooklatch_core::mistakes::Mistake;

/// Remedy for a value that does not fit the rest of its file.
pub(crate) const REMEDY: &str = "correct it; providers/README.md says what each key means";

/// What to do about a sender that no `provider.toml` can describe.
pub(super) const NEEDS_CODE: &str =
    "this sender needs a mod.rs and a build: \"Where the file ends\" in providers/README.md";

/// A mistake of a key whose value has the right form.
pub(crate) fn misfit(key: &str, why: impl Into<String>) -> Mistake {
    Mistake::said(key, why, REMEDY)
}

/// Longest time over which a sender may send again: the most that ids can be kept. Hours.
pub(super) const HORIZON_H_MAX: u32 = 3_650 * 24;
/// Longest time a sender may wait. Milliseconds.
pub(super) const ANSWER_WITHIN_MS_MAX: u32 = 3_600_000;

pub(crate) fn bounded(key: &str, number: u32, max: u32) -> Result<(), Mistake> {
    if (1..=max).contains(&number) {
        Ok(())
    } else {
        Err(misfit(key, format!("write a number from 1 to {max}")))
    }
}

/// Refuses a text that is no JSON pointer, nor several separated by `|`.
pub(crate) fn pointer(key: &str, text: &str) -> Result<(), Mistake> {
    if text.split('|').all(|one| one.is_empty() || one.starts_with('/')) {
        return Ok(());
    }
    Err(misfit(key, format!("`{text}` is not a JSON pointer, it must start with `/`")))
}
