//! What several pages draw: `frame.rs` is the page around them, `chip.rs` states as words, `moment.rs` times and
//! figures, `link.rs` names that lead somewhere, `list.rs` tables of rows with their next page, `form.rs` what acts,
//! `field.rs` what filters are made of, `chart.rs` bars over time, `activity.rs` what a node counted as such, `copy.rs` texts to take along.

pub(super) mod activity;
pub(super) mod chart;
pub(super) mod chip;
pub(super) mod copy;
pub(super) mod field;
pub(super) mod form;
pub(super) mod frame;
pub(super) mod link;
pub(super) mod list;
pub(super) mod moment;
