//! What several pages draw: `frame.rs` is the page around them, `chip.rs` states as words, `moment.rs` times, figures
//! and foreign texts, `body.rs` texts of several lines, `diff.rs` two of them side by side, `link.rs` names with a
//! link, `list.rs` tables of rows with their next page, `form.rs` forms that act, `field.rs` the fields of filters,
//! `activity.rs` bars over time.

pub(crate) mod activity;
pub(crate) mod body;
pub(super) mod chip;
pub(super) mod diff;
pub(crate) mod field;
pub(crate) mod form;
pub(crate) mod frame;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod moment;

pub use body::indented;
