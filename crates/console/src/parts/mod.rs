//! What several pages draw: `text.rs` times, figures, states and foreign texts, `link.rs` names with a link, `list.rs`
//! filters, tables and facts, `form.rs` forms that act, `body.rs` texts of several lines, `diff.rs` two of them side by
//! side, `activity.rs` bars over time.

pub(crate) mod activity;
pub(crate) mod body;
pub(crate) mod diff;
pub(crate) mod form;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod text;

pub use body::indented;
