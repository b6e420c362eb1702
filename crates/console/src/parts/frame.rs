//! The page around every page: head, search, names of the pages; and the headers that keep it to itself.

use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use super::chip::{Mood, chip};
use super::moment;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use hooklatch_core::types::{Principal, Role};

/// The page that is shown, as the list of pages marks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Overview,
    Events,
    Messages,
    Lanes,
    Destinations,
    Senders,
    Rejected,
    Explain,
    Operations,
    Audit,
    Settings,
    /// None of those in the list.
    Elsewhere,
}

/// The pages in the list: place, path, name, weakest role.
const PLACES: [(Place, &str, &str, Role); 11] = [
    (Place::Overview, "/", "Overview", Role::Viewer),
    (Place::Events, "/events", "Events", Role::Viewer),
    (Place::Messages, "/messages", "Messages", Role::Viewer),
    (Place::Lanes, "/lanes", "Lanes", Role::Viewer),
    (Place::Destinations, "/destinations", "Destinations", Role::Viewer),
    (Place::Senders, "/senders", "Senders", Role::Viewer),
    (Place::Rejected, "/rejected", "Rejected", Role::Viewer),
    (Place::Explain, "/explain", "Explain", Role::Reader),
    (Place::Operations, "/operations", "Operations", Role::Viewer),
    (Place::Audit, "/audit", "Audit", Role::Operator),
    (Place::Settings, "/settings", "Settings", Role::Operator),
];

/// Our own files alone, nothing inline, in no other site's frame, forms to us alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What the frame shows besides the page.
pub(crate) struct Frame<'a> {
    pub state: &'a ConsoleState,
    /// Who looks; `None` before they have signed in.
    pub principal: Option<&'a Principal>,
    pub place: Place,
}

impl Frame<'_> {
    fn link(&self, path: &str) -> String {
        format!("{}{path}", self.state.base)
    }

    fn draw(&self, title: &str, body: &Markup) -> Markup {
        self.draw_with(title, &html! {}, body)
    }

    /// The page, with `more` in its head.
    fn draw_with(&self, title: &str, more: &Markup, body: &Markup) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" data-base=(self.state.base) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (title) " · " @if let Some(name) = &self.state.server_name { (name) " · " } "Hooklatch" }
                    link rel="icon" type="image/svg+xml" href=(self.link(&ICON.path));
                    link rel="stylesheet" href=(self.link(&STYLE.path));
                    script defer src=(self.link(&SCRIPT.path)) {}
                    (more)
                }
                body {
                    a class="skip" href="#main" { "Skip to the content" }
                    (self.head())
                    @if let Some(principal) = self.principal { (self.places(principal)) }
                    main id="main" tabindex="-1" {
                        h1 { (title) }
                        (body)
                    }
                }
            }
        }
    }

    fn head(&self) -> Markup {
        html! {
            header class="top" {
                a class="brand" href=(self.link("/")) { "Hooklatch" }
                @if let Some(name) = &self.state.server_name { span class="server" { (name) } }
                @if self.state.is_test { (chip(Mood::Needed, "TEST")) }
                @if let Some(principal) = self.principal {
                    button type="button" class="menu" popovertarget="places" { "Menu" }
                    form class="search" role="search" method="get" action=(self.link("/search")) {
                        input id="search" type="search" name="id" placeholder="Any id: event, payment, order, message …" aria-label="Search by any id" required maxlength="1000" autocomplete="off" spellcheck="false";
                        button type="submit" { "Search" }
                    }
                    div class="who" {
                        span { (principal.name.as_str()) }
                        (chip(Mood::Quiet, principal.role.as_str()))
                        @if self.state.everybodys.is_none() {
                            a href=(self.link("/sign-out")) { "Sign out" }
                        } @else { (chip(Mood::Needed, "dev")) }
                    }
                }
            }
        }
    }

    fn places(&self, principal: &Principal) -> Markup {
        html! {
            // A menu where the window is narrow, without a script.
            nav class="places" id="places" popover aria-label="Pages" {
                ul {
                    @for (place, path, name, role) in &PLACES {
                        @if principal.role >= *role {
                            li { a href=(self.link(path)) aria-current=[(*place == self.place).then_some("page")] { (name) } }
                        }
                    }
                }
            }
        }
    }
}

/// A whole page, with its head and its list of pages.
pub(crate) fn page(frame: &Frame<'_>, title: &str, body: &Markup) -> Response {
    page_with(frame, StatusCode::OK, title, body)
}

/// A whole page with a status of its own.
pub(crate) fn page_with(frame: &Frame<'_>, status: StatusCode, title: &str, body: &Markup) -> Response {
    answer(status, frame.draw(title, body))
}

/// A page that goes on to another address of ours by itself.
pub(crate) fn passing(frame: &Frame<'_>, to: &str, body: &Markup) -> Response {
    let refresh = html! { meta http-equiv="refresh" content=(format!("0; url={to}")); };
    answer(StatusCode::OK, frame.draw_with("One moment", &refresh, body))
}

/// A page about what went wrong.
pub(crate) fn trouble(frame: &Frame<'_>, trouble: &PageError) -> Response {
    let title = match trouble.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::UNAUTHORIZED => "You are not signed in",
        StatusCode::FORBIDDEN => "This token may not do that",
        StatusCode::PRECONDITION_FAILED => "It has changed in the meantime",
        StatusCode::CONFLICT => "This cannot be done now",
        status if status.is_server_error() => "This did not work",
        _ => "This request is not valid",
    };
    let sentence =
        if trouble.title.is_empty() { "the answer was incomplete: try again" } else { &trouble.title };
    let body = html! {
        p class="trouble" role="alert" { (moment::foreign(sentence)) "." }
        @if let Some(state) = &trouble.state { p { "Its state is " (chip(Mood::Quiet, state)) "." } }
        @if let Some(counted_n) = trouble.counted_n { p { "The number is " (counted_n) "." } }
        @if let Some(wait_s) = trouble.retry_after_s { p { "Try again in " (wait_s) " s." } }
        p class="hint" { "HTTP " (trouble.status.as_u16()) @if let Some(code) = &trouble.code { ", " code { (code) } } }
        @if let Some(path) = &trouble.about { p { a href=(frame.link(path)) { "Look at it again" } } }
        @if trouble.status == StatusCode::UNAUTHORIZED { p { a href=(frame.link("/sign-in")) { "Sign in" } } }
        @else { p { a href=(frame.link("/")) { "To the overview" } } }
    };
    answer(trouble.status, frame.draw(title, &body))
}

/// The same for a person who is not signed in.
pub(crate) fn lonely(state: &ConsoleState, what: &PageError) -> Response {
    trouble(&Frame { state, principal: None, place: Place::Elsewhere }, what)
}

/// A page with the headers that every page has.
fn answer(status: StatusCode, page: Markup) -> Response {
    let mut response = Response::new(Body::from(page.0));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // Addresses have ids in them. With "no-referrer" a browser would send its forms with `Origin: null`.
        (header::REFERRER_POLICY, "same-origin"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
