//! What commands over the operators' API print: tables and fields for people, JSON for programs.
//!
//! In reading order: `screen.rs` knows where it is printed (a terminal or a pipe, how wide, with colours or without);
//! `shown.rs` and `table.rs` align; `json.rs` puts times
//! beside milliseconds. Texts of strangers are escaped in `shown.rs`, before anything else is done with them.

mod json;
mod screen;
mod shown;
mod table;

pub(crate) use crate::figures::{grouped, plural, reruns};
pub(crate) use crate::times::{ago, day, in_day, parse_end, parse_time, told};
pub(crate) use json::with_times;
pub(crate) use screen::{ColourChoice, Screen};
pub(crate) use shown::{Shown, Tone};
pub(crate) use table::{Column, fields, table};
