//! Two texts side by side, as a table: what stands in one alone has a sign.

use maud::{Markup, html};

use super::diff::DiffRow;
use super::list::{self, Narrow};
use crate::figures::plural;

/// The rows of two texts, under the names of both.
pub(in crate::console) fn table(caption: &str, names: [&str; 2], rows: &[DiffRow<'_>]) -> Markup {
    let drawn: Vec<Markup> = rows
        .iter()
        .map(|row| match row {
            DiffRow::Same(line) => html! { tr class="diff same" { td { (line) } td { (line) } } },
            DiffRow::Other(first, other) => html! {
                tr class="diff" { (side(*first, "bad", "− ")) (side(*other, "good", "+ ")) }
            },
            DiffRow::LeftOut(lines_n) => html! {
                tr { td colspan="2" class="none" { (plural(*lines_n as u64, "equal line")) } }
            },
        })
        .collect();
    list::table_as(Narrow::Stacked, caption, &names, &drawn)
}

/// A line that one side alone has; its sign says so to those who see no colours.
fn side(line: Option<&str>, class: &str, sign: &str) -> Markup {
    html! {
        @match line {
            Some(line) => td class=(class) { span class="sign" { (sign) } (line) },
            None => td {},
        }
    }
}
