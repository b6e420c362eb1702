//! Authentication of a browser: by its session cookie, or through the page for signing in.
//!
//! The cookie is `SameSite=Strict`, so that a link from another site opens a page of ours without it. Such a request is
//! answered with a page that goes on to the same address by itself: the second request comes from us, and has the
//! cookie.

use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use maud::html;

use crate::ConsoleState;
use crate::page::{PageBody, PageError};
use crate::parts::form;
use crate::visit::with_query;
use hooklatch_core::types::{Principal, SessionText};
use hooklatch_operator::http::token_gate::{Presented, SESSION_MS};

/// Name of the cookie that holds a session.
const COOKIE: &str = "hooklatch_session";
/// Its name where browsers take it from our own host alone: over TLS, for the whole host. Without that, servers at
/// other ports and sibling hosts can set cookies of the same name.
const HOST_COOKIE: &str = "__Host-hooklatch_session";
/// Most cookies of that name that are looked at.
const COOKIES_N_MAX: usize = 32;
/// Parameter of the query that marks a redirect of our own.
const ARRIVED: &str = "arrived";
/// Longest address to go to after signing in. Bytes.
const TO_BYTES_MAX: usize = 2_048;

/// Reasons why the console asks a person to sign in: the word in the address, and a sentence.
const REASONS: [(&str, &str); 5] = [
    (ENDED, "Your session has ended. Sign in again to go on."),
    (REVOKED, "The token that you signed in with was revoked. Sign in with another one."),
    (SIGNED_OUT, "You are signed out."),
    (SIGNED_OUT_EVERYWHERE, "You are signed out everywhere: all sessions of this token have ended."),
    (
        SEVERAL,
        "Your browser sent two valid sessions, so both were ended. Sign in again. If this happens again, another server on \
         this host sets cookies for this one.",
    ),
];
const ENDED: &str = "ended";
const REVOKED: &str = "revoked";
const SEVERAL: &str = "several";
pub(crate) const SIGNED_OUT: &str = "out";
pub(crate) const SIGNED_OUT_EVERYWHERE: &str = "everywhere";

/// The sentence about a reason that stands in an address.
pub(crate) fn reason_sentence(word: &str) -> Option<&'static str> {
    REASONS.iter().find(|(one, _)| *one == word).map(|(_, sentence)| *sentence)
}

fn cookie_name(state: &ConsoleState) -> &'static str {
    if state.is_secure && state.base.is_empty() { HOST_COOKIE } else { COOKIE }
}

/// The sessions that a browser presents.
pub(crate) fn sessions_of<'a>(state: &ConsoleState, headers: &'a HeaderMap) -> Vec<&'a str> {
    cookies(headers, cookie_name(state))
}

fn cookies<'a>(headers: &'a HeaderMap, wanted: &str) -> Vec<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == wanted).map(|(_, value)| value).take(COOKIES_N_MAX).collect()
}

/// One request has several valid sessions, and it is unknown which of them is the browser's own.
pub(crate) struct SeveralSessions;

/// Judges the sessions of a request: the one that is valid counts, or else the last. Several valid ones are all ended.
pub(crate) async fn judged(
    state: &ConsoleState,
    headers: &HeaderMap,
) -> Result<Option<Presented>, SeveralSessions> {
    if let Some(token) = &state.dev_token {
        return Ok(Some(state.gate.judge(token.reveal()).await));
    }
    let presented = state.gate.judge_sessions(&sessions_of(state, headers)).await;
    let is_good = |(_, judged): &&(&str, Presented)| matches!(judged, Presented::Valid(..));
    let good: Vec<&str> = presented.iter().filter(is_good).map(|(text, _)| *text).collect();
    if good.len() > 1 {
        for session in good {
            if state.gate.end_session(session).await.is_err() {
                return Ok(Some(Presented::Unavailable));
            }
        }
        return Err(SeveralSessions);
    }
    let mut presented: Vec<Presented> = presented.into_iter().map(|(_, judged)| judged).collect();
    presented.sort_by_key(|judged| matches!(judged, Presented::Valid(..)));
    Ok(presented.pop())
}

/// Authenticates a request, or returns the response to send instead.
pub(crate) async fn authenticate(parts: &Parts, state: &ConsoleState) -> Result<Principal, Box<Response>> {
    let target = AskedPage::of(parts);
    let judged = match judged(state, &parts.headers).await {
        Ok(judged) => judged,
        Err(SeveralSessions) => return Err(Box::new(target.to_sign_in(state, Some(SEVERAL)))),
    };
    let answer = match judged {
        Some(Presented::Valid(..)) if target.has_arrived && target.is_get => {
            form::go(&format!("{}{}", state.base, target.path))
        }
        Some(Presented::Valid(principal)) => return Ok(principal),
        Some(Presented::Unavailable) => away(),
        Some(Presented::Revoked) => target.to_sign_in(state, Some(REVOKED)),
        Some(Presented::Expired | Presented::Wrong) => target.to_sign_in(state, Some(ENDED)),
        None if target.is_get && !target.has_arrived && comes_from_elsewhere(&parts.headers) => {
            arrive(state, &target.path)
        }
        None => target.to_sign_in(state, None),
    };
    Err(Box::new(answer))
}

/// The address that a browser requested.
struct AskedPage {
    /// Path and query, without our mark.
    path: String,
    has_arrived: bool,
    is_get: bool,
}

impl AskedPage {
    fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let pairs: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let has_arrived = pairs.iter().any(|(name, _)| name == ARRIVED);
        let kept: Vec<(&str, Option<&str>)> = pairs
            .iter()
            .filter(|(name, _)| name != ARRIVED)
            .map(|(name, value)| (name.as_str(), Some(value.as_str())))
            .collect();
        let is_get = matches!(parts.method, Method::GET | Method::HEAD);
        Self { path: with_query(parts.uri.path(), &kept), has_arrived, is_get }
    }

    fn to_sign_in(&self, state: &ConsoleState, reason: Option<&str>) -> Response {
        if self.is_get {
            return form::go(&sign_in_address(state, Some(&self.path), reason));
        }
        let title = "nothing was done, because you are not signed in: sign in, go back and send it again";
        PageError::new(StatusCode::UNAUTHORIZED, "not_signed_in", title).into_response()
    }
}

/// The address of the page for signing in, from where they go on to `to`.
pub(crate) fn sign_in_address(state: &ConsoleState, to: Option<&str>, why: Option<&str>) -> String {
    let to = to.filter(|to| *to != "/").and_then(own_path);
    let values = [("to", to), ("why", why)];
    format!("{}{}", state.base, with_query("/sign-in", &values))
}

/// The path of one of our own pages to go to after signing in; `None` for anything else.
pub(crate) fn own_path(to: &str) -> Option<&str> {
    let is_plain = to.len() <= TO_BYTES_MAX && to.bytes().all(|byte| byte.is_ascii_graphic());
    let mut parts = to.strip_prefix('/')?.split(['/', '?']);
    let first = parts.next().unwrap_or_default();
    // `//host` and `/\host` are other sites, and signing in does not lead to signing in again.
    let is_ours = !to.starts_with("//") && !to.contains('\\') && !matches!(first, "sign-in" | "sign-out");
    (is_plain && is_ours).then_some(to)
}

/// True when a browser reports that another site sends it, or reports nothing and so may have left its cookie out.
fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    match headers.get("sec-fetch-site") {
        Some(site) => site == "cross-site" || site == "same-site",
        // Over plain HTTP, no browser reports it.
        None => headers
            .get(header::ACCEPT)
            .is_some_and(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/html"))),
    }
}

/// A page that goes on to the same address by itself.
fn arrive(state: &ConsoleState, path: &str) -> Response {
    let mark = if path.contains('?') { "&" } else { "?" };
    let to = format!("{}{path}{mark}{ARRIVED}=1", state.base);
    let body = html! {
        p { "You come from another site. " a href=(to) { "Go on to the page" } "." }
    };
    PageBody { onward: Some(to), ..PageBody::new("One moment", body) }.into_response()
}

/// The response while the database does not answer, so that no session can be checked.
fn away() -> Response {
    let title = "the database does not answer, so your session cannot be checked: try again in a moment";
    let mut error = PageError::new(StatusCode::SERVICE_UNAVAILABLE, "sessions_unknown", title);
    error.retry_after_s = Some(5);
    error.into_response()
}

/// Gives a browser its session, for as long as it is good.
pub(crate) fn with_session(state: &ConsoleState, response: Response, session: &SessionText) -> Response {
    with_cookie(state, response, session.reveal(), SESSION_MS / 1_000)
}

/// Takes a browser's session away.
pub(crate) fn without_session(state: &ConsoleState, response: Response) -> Response {
    with_cookie(state, response, "", 0)
}

fn with_cookie(state: &ConsoleState, mut response: Response, value: &str, age_s: i64) -> Response {
    let path = if state.base.is_empty() { "/" } else { &state.base };
    let secure = if state.is_secure { "; Secure" } else { "" };
    let name = cookie_name(state);
    let text = format!("{name}={value}; HttpOnly; SameSite=Strict; Path={path}; Max-Age={age_s}{secure}");
    if let Ok(text) = HeaderValue::from_str(&text) {
        response.headers_mut().append(header::SET_COOKIE, text);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_ours_are_gone_to_after_signing_in() {
        for ours in
            ["/", "/events", "/events?state=handled&type=a%20b", "/events/stripe/evt_1%2F2", "/search?id=//x"]
        {
            assert_eq!(own_path(ours), Some(ours));
        }
        for other in [
            "",
            "events",
            "//evil.example",
            "/\\evil.example",
            "/a\\b",
            "https://evil.example/",
            "javascript:alert(1)",
            "/a b",
            "/a\r\nset-cookie: x",
            "/é",
            "/sign-in",
            "/sign-in?to=/",
            "/sign-out/everywhere",
            &format!("/{}", "x".repeat(TO_BYTES_MAX)),
        ] {
            assert_eq!(own_path(other), None, "{other}");
        }
    }

    #[test]
    fn a_session_is_found_among_other_cookies() {
        #[track_caller]
        fn check(lines: &[&str], want: &[&str]) {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(header::COOKIE, line.parse().expect("a value"));
            }
            assert_eq!(cookies(&headers, COOKIE), want);
        }
        check(&[], &[]);
        check(&["a=b; hooklatch_session=x;c=d"], &["x"]);
        check(&["hooklatch_session=x", "hooklatch_session=y; xhooklatch_session=z"], &["x", "y"]);
        check(&["hooklatch_session"], &[]);
        check(&["hooklatch_session=1; ".repeat(99).as_str()], &["1"; COOKIES_N_MAX]);
        check(&["__Host-hooklatch_session=x"], &[]);
    }

    #[test]
    fn a_browser_that_may_have_left_its_cookie_out_is_sent_on() {
        #[track_caller]
        fn check(given: &[(&'static str, &'static str)], want: bool) {
            let headers = given.iter().map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_static(value))
            });
            assert_eq!(comes_from_elsewhere(&headers.collect()), want, "{given:?}");
        }
        check(&[("sec-fetch-site", "cross-site")], true);
        check(&[("sec-fetch-site", "same-site")], true);
        check(&[("sec-fetch-site", "same-origin"), ("accept", "text/html")], false);
        check(&[("sec-fetch-site", "none"), ("accept", "text/html")], false);
        check(&[("accept", "text/html,application/xhtml+xml")], true);
        check(&[("accept", "*/*")], false);
        check(&[], false);
    }
}
