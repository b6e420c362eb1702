//! What a handler returns, a page or an error, and the frame around both: head, search, names of the pages; and the
//! headers that keep a page to itself.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use crate::ConsoleState;
use crate::assets::{ICON, SCRIPT, STYLE};
use crate::parts::text::{Mood, chip, foreign};
use hooklatch_contract::ProblemView;
use hooklatch_core::types::{Principal, Role};

/// A page without its frame.
#[derive(Debug, Clone)]
pub(crate) struct PageBody {
    pub title: String,
    pub body: Markup,
    pub status: StatusCode,
    /// Address that a browser goes on to by itself.
    pub onward: Option<String>,
}

impl PageBody {
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Self {
        Self { title: title.into(), body, status: StatusCode::OK, onward: None }
    }
}

/// Something that a page could not be made of, or an order that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageError {
    pub status: StatusCode,
    /// What is wrong, as the contract answers it.
    pub problem: Box<ProblemView>,
    /// Seconds until another try makes sense.
    pub retry_after_s: Option<u32>,
    /// Path of the page about the subject, where there is one to look at again.
    about: Option<Box<str>>,
}

/// What a handler of a page returns.
pub(crate) type PageResult = Result<PageBody, PageError>;

impl PageError {
    /// An error of the console itself, in one sentence.
    pub(crate) fn new(status: StatusCode, code: &str, sentence: &str) -> Self {
        let (code, detail) = (code.to_owned(), Some(sentence.to_owned()));
        Self::of_problem(status, ProblemView { code, detail, ..ProblemView::default() }, None)
    }

    /// What the contract answered instead.
    pub(crate) fn of_problem(status: StatusCode, problem: ProblemView, retry_after_s: Option<u32>) -> Self {
        Self { status, problem: Box::new(problem), retry_after_s, about: None }
    }

    /// An answer that ended too early, or is of another version.
    pub(crate) fn incomplete() -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "", "the answer was incomplete: try again")
    }

    /// Nothing is at this address.
    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", "nothing is at this address")
    }

    /// A form that cannot be parsed; `sentence` names what it needs.
    pub(crate) fn bad_form(sentence: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_form", sentence)
    }

    /// Adds the way back to the page about its subject.
    pub(crate) fn about(self, path: &str) -> Self {
        Self { about: Some(path.into()), ..self }
    }
}

impl IntoResponse for PageBody {
    fn into_response(self) -> Response {
        unframed(Ok(self))
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        unframed(Err(self))
    }
}

/// A response that a layer draws the frame around.
fn unframed(made: PageResult) -> Response {
    let mut response = Response::default();
    response.extensions_mut().insert(made);
    response
}

/// The pages in the list: path, name, weakest role.
const PLACES: [(&str, &str, Role); 11] = [
    ("/", "Overview", Role::Viewer),
    ("/events", "Events", Role::Viewer),
    ("/messages", "Messages", Role::Viewer),
    ("/lanes", "Lanes", Role::Viewer),
    ("/destinations", "Destinations", Role::Viewer),
    ("/senders", "Senders", Role::Viewer),
    ("/rejected", "Rejected", Role::Viewer),
    ("/explain", "Explain", Role::Reader),
    ("/operations", "Operations", Role::Viewer),
    ("/audit", "Audit", Role::Operator),
    ("/settings", "Settings", Role::Operator),
];

/// Our own files alone, nothing inline, in no other site's frame, forms to us alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Frames what is left of pages and errors: those for people who are not signed in.
pub(crate) async fn framed(State(state): State<Arc<ConsoleState>>, request: Request, next: Next) -> Response {
    let frame = Frame { state: &state, principal: None, path: "" };
    let mut response = next.run(request).await;
    frame.around(&mut response).unwrap_or(response)
}

/// What the frame shows besides the page.
pub(crate) struct Frame<'a> {
    pub state: &'a ConsoleState,
    /// Who looks; `None` before they have signed in.
    pub principal: Option<&'a Principal>,
    /// Path of the page.
    pub path: &'a str,
}

impl Frame<'_> {
    /// The page or the error of this response within the frame; `None` for another response.
    pub(crate) fn around(&self, response: &mut Response) -> Option<Response> {
        let made = response.extensions_mut().remove::<PageResult>()?;
        let page = made.unwrap_or_else(|error| self.error(&error));
        let mut response = Response::new(Body::from(self.draw(&page).0));
        *response.status_mut() = page.status;
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
        Some(response)
    }

    fn link(&self, path: &str) -> String {
        format!("{}{path}", self.state.base)
    }

    fn draw(&self, page: &PageBody) -> Markup {
        html! {
            (DOCTYPE)
            html lang="en" data-base=(self.state.base) {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (page.title) " · " @if let Some(name) = &self.state.server_name { (name) " · " } "Hooklatch" }
                    link rel="icon" type="image/svg+xml" href=(self.link(&ICON.path));
                    link rel="stylesheet" href=(self.link(&STYLE.path));
                    script defer src=(self.link(&SCRIPT.path)) {}
                    @if let Some(to) = &page.onward { meta http-equiv="refresh" content=(format!("0; url={to}")); }
                }
                body {
                    a class="skip" href="#main" { "Skip to the content" }
                    (self.head())
                    @if let Some(principal) = self.principal { (self.places(principal)) }
                    main id="main" tabindex="-1" {
                        h1 { (page.title) }
                        (page.body)
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
                        @if self.state.dev_token.is_none() {
                            a href=(self.link("/sign-out")) { "Sign out" }
                        } @else { (chip(Mood::Needed, "dev")) }
                    }
                }
            }
        }
    }

    fn places(&self, principal: &Principal) -> Markup {
        let is_here = |path: &str| self.path.split('/').nth(1) == path.split('/').nth(1);
        html! {
            // A menu where the window is narrow, without a script.
            nav class="places" id="places" popover aria-label="Pages" {
                ul {
                    @for (path, name, role) in &PLACES {
                        @if principal.role >= *role {
                            li { a href=(self.link(path)) aria-current=[is_here(path).then_some("page")] { (name) } }
                        }
                    }
                }
            }
        }
    }

    /// A page about what went wrong.
    fn error(&self, error: &PageError) -> PageBody {
        let title = match error.status {
            StatusCode::NOT_FOUND => "Not found",
            StatusCode::UNAUTHORIZED => "You are not signed in",
            StatusCode::FORBIDDEN => "This token may not do that",
            StatusCode::PRECONDITION_FAILED => "It has changed in the meantime",
            StatusCode::CONFLICT => "This cannot be done now",
            status if status.is_server_error() => "This did not work",
            _ => "This request is not valid",
        };
        let problem = &error.problem;
        let body = html! {
            p class="trouble" role="alert" { (foreign(problem.sentence())) "." }
            @if let Some(state) = &problem.state { p { "Its state is " (chip(Mood::Quiet, state)) "." } }
            @if let Some(counted_n) = problem.counted_n { p { "The number is " (counted_n) "." } }
            @if let Some(wait_s) = error.retry_after_s { p { "Try again in " (wait_s) " s." } }
            p class="hint" { "HTTP " (error.status.as_u16()) @if !problem.code.is_empty() { ", " code { (problem.code) } } }
            @if let Some(path) = &error.about { p { a href=(self.link(path)) { "Look at it again" } } }
            @if error.status == StatusCode::UNAUTHORIZED { p { a href=(self.link("/sign-in")) { "Sign in" } } }
            @else { p { a href=(self.link("/")) { "To the overview" } } }
        };
        PageBody { status: error.status, ..PageBody::new(title, body) }
    }
}
