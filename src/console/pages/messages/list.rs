//! The list of messages: what waits for a person first, then the newest; or what a filter finds.

use axum::extract::RawQuery;
use axum::response::Response;
use maud::{Markup, html};

use super::row;
use crate::api::{MessageView, Page};
use crate::console::contract::with_query;
use crate::console::parts::frame::Place;
use crate::console::parts::{chip, field, list};
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::times;
use crate::types::{MessageState, Role, UnixMs};

/// Values of the query that are those of the contract.
const SAME: [&str; 5] = ["state", "destination", "provider", "lane", "created_before_ms"];
/// The time before which they were written, as a person writes it.
const CREATED_BEFORE: &str = "created_before";
/// Messages in each of the states that need a person, on the page without a filter.
const WAITING_N: &str = "10";
/// The newest ones on that page.
const NEWEST_N: &str = "30";

/// A query of the contract: its names and values.
type Asked = Vec<(&'static str, Option<String>)>;

pub(super) async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await.map(|body| ("Messages".to_owned(), body));
    visit.answer(Place::Messages, made)
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, Trouble> {
    let asked = asked(values, visit.now_ms)?;
    let is_filtered = !asked.is_empty();
    let found = if is_filtered || field::value(values, "cursor").is_some() {
        found(visit, values, &asked).await?
    } else {
        first(visit).await?
    };
    Ok(html! {
        (filter(visit, values, is_filtered))
        (found)
    })
}

/// The filter as the contract has it.
fn asked(values: &[(String, String)], now_ms: UnixMs) -> Result<Asked, Trouble> {
    let given = SAME.iter().filter_map(|name| Some((*name, Some(field::value(values, name)?.to_owned()))));
    let mut asked: Asked = given.collect();
    if let Some(text) = field::value(values, CREATED_BEFORE) {
        let at_ms = times::parse_time(text.trim(), now_ms).map_err(|why| Trouble::bad_form(&why))?;
        asked.retain(|(name, _)| *name != "created_before_ms");
        asked.push(("created_before_ms", Some(at_ms.to_string())));
    }
    Ok(asked)
}

fn target(path: &str, asked: &Asked, more: &[(&str, Option<&str>)]) -> String {
    let mut all: Vec<(&str, Option<&str>)> =
        asked.iter().map(|(name, value)| (*name, value.as_deref())).collect();
    all.extend_from_slice(more);
    with_query(path, &all)
}

/// The page without a filter: each of its parts is bounded.
async fn first(visit: &Visit) -> Result<Markup, Trouble> {
    let held = some(visit, "held", WAITING_N).await?;
    let dead = some(visit, "dead", WAITING_N).await?;
    let newest: Page<MessageView> = visit.ask(&with_query("/messages", &[("limit", Some(NEWEST_N))])).await?;
    Ok(html! {
        @if held.items.is_empty() && dead.items.is_empty() {
            (list::nothing("No message waits for a decision."))
        }
        (waiting(visit, MessageState::Held, "Held: each waits for a decision", &held))
        (waiting(visit, MessageState::Dead, "Dead: they were given up", &dead))
        section aria-labelledby="newest" {
            h2 id="newest" { "The newest" }
            @if newest.items.is_empty() { (list::nothing("There are no messages yet.")) }
            @else { (row::table(visit, "The newest messages", &newest.items)) }
            (list::onwards(visit, "/messages", &[], &newest))
        }
    })
}

async fn some(visit: &Visit, state: &str, limit: &str) -> Result<Page<MessageView>, Trouble> {
    visit.ask(&with_query("/messages", &[("state", Some(state)), ("limit", Some(limit))])).await
}

/// Those that stand in a state which only a person ends.
fn waiting(visit: &Visit, state: MessageState, title: &str, page: &Page<MessageView>) -> Markup {
    let word = state.as_str();
    let all = with_query("/messages", &[("state", Some(word))]);
    html! {
        @if !page.items.is_empty() {
            section aria-labelledby=(word) {
                h2 id=(word) { (title) }
                (row::table(visit, title, &page.items))
                p class="links" {
                    a href=(visit.link(&all)) { "All that are " (chip::message(state)) }
                    (bulk(visit, &vec![("state", Some(word.to_owned()))]))
                }
            }
        }
    }
}

/// The way to act on all that a filter finds, for those who may.
fn bulk(visit: &Visit, asked: &Asked) -> Markup {
    let path = target("/operations/new", asked, &[("subject", Some("messages"))]);
    html! {
        @if visit.may(Role::Operator) { " · " a href=(visit.link(&path)) { "Act on all of them …" } }
    }
}

/// The page with a filter, or a later one.
async fn found(visit: &Visit, values: &[(String, String)], asked: &Asked) -> Result<Markup, Trouble> {
    let cursor = field::value(values, "cursor");
    let page: Page<MessageView> = visit.ask(&target("/messages", asked, &[("cursor", cursor)])).await?;
    let has_state = asked.iter().any(|(name, _)| *name == "state");
    Ok(html! {
        @if page.items.is_empty() { (list::nothing("No message is found by this filter.")) }
        @else {
            (row::table(visit, "Messages", &page.items))
            @if has_state { p class="links" { "By this filter" (bulk(visit, asked)) } }
        }
        (list::onwards(visit, "/messages", values, &page))
    })
}

fn filter(visit: &Visit, values: &[(String, String)], is_filtered: bool) -> Markup {
    let fields = html! {
        (field::choice("state", "State", values, MessageState::ALL.iter().map(|state| state.as_str())))
        (field::destination(visit, values))
        (field::provider(visit, values))
        (field::text("lane", "Lane", values))
        (field::text(CREATED_BEFORE, "Before (2h, or a date)", values))
    };
    field::filter(&visit.link("/messages"), &fields, is_filtered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_asked_in_the_words_of_the_contract() {
        #[track_caller]
        fn check(given: &[(&str, &str)], want: Option<&str>) {
            let values: Vec<_> =
                given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let found = asked(&values, 7_200_000).ok().map(|asked| target("/m", &asked, &[]));
            assert_eq!(found.as_deref(), want, "{given:?}");
        }
        check(&[], Some("/m"));
        check(&[("cursor", "5"), ("odd", "x")], Some("/m"));
        check(&[("state", "held"), ("lane", "a&b")], Some("/m?state=held&lane=a%26b"));
        check(&[("created_before", " 1h ")], Some("/m?created_before_ms=3600000"));
        check(
            &[("created_before", "1970-01-01"), ("created_before_ms", "9")],
            Some("/m?created_before_ms=0"),
        );
        check(&[("created_before", "soon")], None);
    }
}
