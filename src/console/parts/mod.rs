//! What several pages draw: `frame.rs` is the page around them, `chip.rs` states as words, `moment.rs` times, figures and
//! texts of strangers, `body.rs` texts of several lines, `diff.rs` two of them side by side, `link.rs` names that lead
//! somewhere, `list.rs` tables of rows with their next page, `form.rs` what acts, `field.rs` what filters are made of,
//! `activity.rs` bars over time.

pub(super) mod activity;
pub(super) mod body;
pub(super) mod chip;
pub(super) mod diff;
pub(super) mod field;
pub(super) mod form;
pub(super) mod frame;
pub(super) mod link;
pub(super) mod list;
pub(super) mod moment;

#[cfg(test)]
pub(crate) use body::indented;
