//! What several pages draw: `frame.rs` is the page around them, `chip.rs` states as words, `moment.rs` times and
//! figures, `brief.rs` long texts of strangers, `body.rs` texts of several lines, of which `indent.rs` makes JSON readable,
//! `link.rs` names that lead somewhere, `list.rs` tables of rows with their next page, `form.rs` what acts, `field.rs` what
//! filters are made of, `copy.rs` texts to take along, `diff.rs` and `sides.rs` two texts side by side. `chart.rs` draws bars
//! over time, and `activity.rs` what a node counted with them. `judged.rs` has the acts with what each risks, `policy.rs` how a
//! destination is called.

pub(super) mod activity;
pub(super) mod body;
pub(super) mod brief;
pub(super) mod chart;
pub(super) mod chip;
pub(super) mod copy;
pub(super) mod diff;
pub(super) mod field;
pub(super) mod form;
pub(super) mod frame;
mod indent;
#[cfg(test)]
pub(crate) use indent::indented;
pub(super) mod judged;
pub(super) mod link;
pub(super) mod list;
pub(super) mod moment;
pub(super) mod pause;
pub(super) mod policy;
pub(super) mod sides;
