//! What several pages draw: `frame.rs` is the page around them, `chip.rs` states as words, `moment.rs` times and
//! figures, `brief.rs` long texts of strangers, `link.rs` names that lead somewhere, `list.rs` tables of rows with their next page, `form.rs` what acts,
//! `field.rs` what filters are made of.

pub(super) mod brief;
pub(super) mod chip;
pub(super) mod field;
pub(super) mod form;
pub(super) mod frame;
pub(super) mod link;
pub(super) mod list;
pub(super) mod moment;
