//! What a provider's secrets show: which of them still match, and which may go.

use maud::{Markup, html};

use crate::api::{ProviderView, SecretView};
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{list, moment};
use crate::console::visit::Visit;

/// The state of all of them in one chip, behind what is odd about the provider.
pub(super) fn state(one: &ProviderView) -> Markup {
    html! {
        (oddities(one))
        @if let Some((mood, word)) = word(&one.secrets) { (chip(mood, word)) }
        @else if !one.is_unverified { (chip(Mood::Quiet, "none needed")) }
    }
}

/// What is odd about a provider, as chips.
fn oddities(one: &ProviderView) -> Markup {
    html! {
        @if one.pause.is_some() { (chip(Mood::Needed, "paused")) " " }
        @if one.is_unverified { (chip(Mood::Bad, "unverified")) " " }
        @if one.taught_at_ms.is_some() { (chip(Mood::Needed, "secret taught")) " " }
        @else if one.is_pairing { (chip(Mood::Needed, "pairing")) " " }
    }
}

/// How a provider's secrets stand, if it has any.
fn word(secrets: &[SecretView]) -> Option<(Mood, &'static str)> {
    let (newest, older) = secrets.split_first()?;
    let has_matched = |one: &SecretView| one.matched_n > 0;
    Some(if secrets.iter().any(|one| one.is_safe_to_remove) {
        (Mood::Busy, "an old one may go")
    } else if !has_matched(newest) && older.iter().any(has_matched) {
        (Mood::Needed, "newest not in use")
    } else if has_matched(newest) {
        (Mood::Good, if older.is_empty() { "matches" } else { "newest matches" })
    } else {
        (Mood::Quiet, "not matched yet")
    })
}

/// A row for each secret.
pub(super) fn table(visit: &Visit, view: &ProviderView) -> Markup {
    if view.secrets.is_empty() {
        return list::nothing(
            "It has no secrets: its requests are believed by keys of its sender, or by nothing.",
        );
    }
    let rows: Vec<Markup> = view.secrets.iter().map(|one| row(visit, view, one)).collect();
    html! {
        (list::table("Secrets", &["Secret", "Goes by", "Matched", "Last matched", "What to do"], &rows))
        p class="hint" {
            "The newest one stands first in the configuration. What a secret goes by says nothing about it: the same
             secret goes by another name elsewhere."
        }
    }
}

fn row(visit: &Visit, view: &ProviderView, one: &SecretView) -> Markup {
    html! {
        tr {
            th scope="row" { (one.position) " of " (view.secrets.len()) }
            td { code { (one.fingerprint) } }
            td { (moment::figure(one.matched_n, false)) }
            td { (moment::moment_or_none(one.last_matched_at_ms, visit.now_ms)) }
            td { (advice(view, one)) }
        }
    }
}

fn advice(view: &ProviderView, one: &SecretView) -> Markup {
    let is_older_used = view.secrets.iter().any(|other| other.position > 1 && other.matched_n > 0);
    match (one.position, one.is_safe_to_remove) {
        (_, true) => html! { (chip(Mood::Good, "safe to remove")) },
        (1, _) if one.matched_n == 0 && is_older_used => {
            html! { (chip(Mood::Needed, "not in use")) " Its sender still signs with an older one." }
        }
        (1, _) => html! { "Keep it: it is the newest." },
        (_, false) if one.matched_n == 0 => html! { "Nobody knows: it has never matched here." },
        (_, false) => html! { "Keep it: what was signed with it may still come." },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_all_secrets_is_said_in_a_word() {
        #[track_caller]
        fn check(secrets: &[(u64, bool)], want: Option<&str>) {
            let view = |(position, (matched_n, is_safe_to_remove)): (u32, &(u64, bool))| SecretView {
                position,
                fingerprint: "ab".to_owned(),
                matched_n: *matched_n,
                last_matched_at_ms: None,
                is_safe_to_remove: *is_safe_to_remove,
            };
            let secrets: Vec<SecretView> = (1..).zip(secrets).map(view).collect();
            assert_eq!(word(&secrets).map(|(_, word)| word), want);
        }
        check(&[], None);
        check(&[(0, false)], Some("not matched yet"));
        check(&[(3, false)], Some("matches"));
        check(&[(3, false), (9, false)], Some("newest matches"));
        check(&[(3, false), (9, true)], Some("an old one may go"));
        check(&[(0, false), (9, false)], Some("newest not in use"));
        check(&[(0, false), (0, false)], Some("not matched yet"));
    }
}
