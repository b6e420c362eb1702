//! `unknown` and `query`: what an unclear answer means, and how to ask whether a call took effect.

use std::ops::RangeInclusive;

use super::pointer;
use crate::config::{Checker, Field, QueryConfig, UnknownPolicy, UrlRule, http_url};
use crate::outbox::destinations::kinds::http::values::samples;
use crate::outbox::destinations::reading::Reading;
use crate::outbox::destinations::template_field::{AS_IN_JINJA, double_braces};
use crate::template::{self, Escape, Limits, Template};
use crate::types::UnknownWord;

/// Time that a call may still be running after its attempt ended. Milliseconds; the default is the lease.
const AFTER_MS: RangeInclusive<u64> = 1_000..=86_400_000;
/// The lease unless it is configured. Milliseconds.
const LEASE_MS: u64 = 30_000;

/// `unknown`, with the keys of `query` where it says so.
pub(in crate::outbox::destinations::kinds::http) fn unknown(reading: &mut Reading<'_, '_>) -> UnknownPolicy {
    let problems_before = reading.checker.problems.len();
    let word = reading.unknown();
    let lease_ms = reading.lease_ms;
    let (checker, table) = (&mut *reading.checker, &mut *reading.table);
    let is_word_good = checker.problems.len() == problems_before;
    let query_field = table.take(checker, "query");
    match (word, query_field) {
        (UnknownWord::Query, Some(field)) => {
            query(checker, field, lease_ms).map_or(UnknownPolicy::Retry, UnknownPolicy::Query)
        }
        (UnknownWord::Query, None) => {
            checker.missing(
                table.path("query"),
                "say how to ask: query = { url = \"…/{{ idempotency_key }}\", pointer = \"/id\" }",
            );
            UnknownPolicy::Retry
        }
        (_, Some(field)) => {
            if is_word_good {
                checker.problem(
                    &field,
                    "is there, but `unknown` is not \"query\"",
                    "set unknown = \"query\" or remove it",
                );
            }
            // Its keys are looked at all the same.
            query(checker, field, lease_ms);
            UnknownPolicy::Retry
        }
        (UnknownWord::Hold, None) => UnknownPolicy::Hold,
        (UnknownWord::Retry, None) => UnknownPolicy::Retry,
    }
}

fn query(checker: &mut Checker<'_>, field: Field, lease_ms: Option<u64>) -> Option<QueryConfig> {
    let mut table = field.table(checker)?;
    let url = table.needed(checker, "url", "write what to GET, with {{ idempotency_key }} in it");
    let url = url.and_then(|field| query_url(checker, &field));
    let pointer = table.needed(checker, "pointer", "write a JSON pointer such as \"/id\"");
    let pointer = pointer.and_then(|field| pointer::pointer(checker, &field));
    let equals = table.text(checker, "equals").map(|(_, text)| text);
    let mut used: Vec<(&str, String)> = equals.iter().map(|text| ("equals", text.clone())).collect();
    let [pending, absent] = ["pending", "absent"].map(|name| {
        let found = table.take(checker, name).map_or_else(Vec::new, |field| values(checker, &field, &used));
        used.extend(found.iter().map(|text| (name, text.clone())));
        found
    });
    let after_ms = table.number(checker, "after_ms", AFTER_MS).or(lease_ms).unwrap_or(LEASE_MS);
    table.finish(checker);
    Some(QueryConfig { url: url?, pointer: pointer?, equals, pending, absent, after_ms })
}

/// The values that mean one thing, and nothing that is `used` for another one.
fn values(checker: &mut Checker<'_>, field: &Field, used: &[(&str, String)]) -> Vec<String> {
    let mut values = Vec::new();
    for field in field.one_or_more(checker).unwrap_or_default() {
        let Some(text) = field.text(checker) else { continue };
        if let Some((name, _)) = used.iter().find(|(_, used)| *used == text) {
            let what = format!("is what `{name}` says, too");
            checker.problem_shown(&field, what, "a value means one thing: remove it");
        }
        values.push(text);
    }
    values
}

/// `query.url`, tried with two messages that were made up: it must lead to an address, and for each to another one: where a call
/// is taken for another's, it is settled as done and never made.
fn query_url(checker: &mut Checker<'_>, field: &Field) -> Option<String> {
    let text = field.text(checker)?;
    double_braces(checker, field, &text)?;
    let template = match Template::parse(&text, Escape::Url) {
        Ok(template) => template,
        Err(why) => {
            checker.problem(field, format!("is not a template: {why}"), AS_IN_JINJA);
            return None;
        }
    };
    if template::has_host_template(&text) {
        checker.problem_shown(field, "leaves the host to a template", "write the host as it is");
        return None;
    }
    let [one, other] = samples().map(|values| template.render(&template::values(&values), Limits::head()));
    match (one, other) {
        (Ok(one), Ok(other)) => {
            if one == other {
                let what =
                    "asks the same about several messages, so that one call could be taken for another's";
                let remedy = "put {{ idempotency_key }} or {{ message.id }} into it: all else is the same when an event runs again";
                checker.problem_shown(field, what, remedy);
            }
            http_url(checker, field, &one, UrlRule::Destination)?;
            Some(text)
        }
        (Err(why), _) | (_, Err(why)) => {
            let remedy = "write {{ idempotency_key }} or {{ message.id }}";
            checker.problem_shown(field, format!("cannot be filled in: {why}"), remedy);
            None
        }
    }
}
