//! What is taken along: buttons that copy a text. They are not shown where no script runs.

use maud::{Markup, html};

use super::moment::foreign;

/// A text of one line with its button; `id` is its own on the page.
pub(in crate::console) fn line(id: &str, text: &str) -> Markup {
    html! {
        span class="taken" {
            code id=(id) { (foreign(text)) }
            button type="button" class="copy" data-copy=(id) { "Copy" }
        }
    }
}

/// A button that copies what the element of this id shows; `label` says what that is.
pub(in crate::console) fn button(id: &str, label: &str) -> Markup {
    html! { button type="button" class="copy" data-copy=(id) { (label) } }
}

/// A button that copies a text of which a page shows a part alone.
pub(super) fn whole(text: &str) -> Markup {
    let text = crate::plain::line(text);
    html! { button type="button" class="copy" data-text=(text) aria-label={ "Copy " (text) } { "Copy" } }
}
