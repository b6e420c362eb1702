//! How a destination is called and when calls are repeated, as rows of facts.

use maud::{Markup, html};

use super::moment::{foreign, none};
use crate::api::PolicyView;
use crate::times;

/// The rows; of a destination that the node which answers does not have, one that says so.
pub(in crate::console) fn rows(policy: Option<&PolicyView>) -> Vec<(&'static str, Markup)> {
    let Some(policy) = policy else {
        return vec![("Unclear answers", html! { "not known: this node does not have the destination" })];
    };
    vec![
        ("Address", policy.host.as_deref().map_or_else(none, foreign)),
        (
            "Unclear answers",
            html! { code { "unknown = \"" (policy.unknown) "\"" } ": " (policy.unknown_in_words()) },
        ),
        ("Remembers a key for", html! { (policy.key_valid_for_in_words()) }),
        ("Timeout", html! { (times::length_in_words(policy.timeout_ms)) }),
        ("Retries", html! { (policy.retry.in_words()) }),
    ]
}
