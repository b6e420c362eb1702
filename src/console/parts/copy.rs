//! Texts to take along: shown whole, with a button that copies them where there is a script.

use maud::{Markup, html};

use super::moment::foreign;

/// A text of one line with its button; `id` is its own on the page.
pub(in crate::console) fn line(id: &str, text: &str) -> Markup {
    html! {
        span class="taken" {
            code id=(id) { (foreign(text)) }
            button type="button" data-copy=(id) { "Copy" }
        }
    }
}
