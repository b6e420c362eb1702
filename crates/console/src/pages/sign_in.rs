//! Signing in with a token, once for each browser, and signing out here or everywhere.
//!
//! These forms carry no key: signing in twice makes two sessions, signing out twice ends nothing more.

use std::net::{IpAddr, Ipv4Addr};

use axum::extract::{Extension, State};
use http::{HeaderMap, header};

use super::prelude::*;
use crate::entrance;
use crate::parts::form::go;
use hooklatch_core::types::Principal;
use hooklatch_operator::http::Peer;
use hooklatch_operator::http::token_gate::Presented;

pub(crate) async fn show(
    State(state): State<Arc<ConsoleState>>,
    headers: HeaderMap,
    values: Values,
) -> Response {
    let to = values.get("to").and_then(entrance::own_path).unwrap_or("/");
    // A person who is signed in already has nothing to do here.
    if matches!(entrance::judged(&state, &headers).await, Ok(Some(Presented::Valid(..)))) {
        return go(&format!("{}{to}", state.base));
    }
    let reason = values.get("why").and_then(entrance::reason_sentence);
    form(&state, StatusCode::OK, to, reason.map(|sentence| ("note", sentence)))
}

/// The page with its one field, and a message in its style.
fn form(state: &ConsoleState, status: StatusCode, to: &str, message: Option<(&str, &str)>) -> Response {
    let body = html! {
        @if let Some((class, sentence)) = message { p class=(class) role="alert" { (sentence) } }
        form class="act" method="post" action=(format!("{}/sign-in", state.base)) {
            input type="hidden" name="to" value=(to);
            // Stores of passwords want to know whose it is.
            input type="text" name="username" value="hooklatch" autocomplete="username" hidden;
            label { span { "Token" }
                input type="password" name="token" required maxlength="1024" autocomplete="current-password" spellcheck="false" autofocus;
            }
            div class="buttons" { button class="main" type="submit" { "Sign in" } }
            p class="hint" {
                "A token of the configuration (" code { "admin.tokens" } "), or one that an admin made with "
                code { "hooklatch tokens make" } ". You stay signed in here for 12 hours, or until you sign out."
            }
        }
    };
    PageBody { status, ..PageBody::new("Sign in", body) }.into_response()
}

pub(crate) async fn sign_in(
    State(state): State<Arc<ConsoleState>>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    sent: SentForm,
) -> Response {
    let to = sent.optional("to").and_then(entrance::own_path).unwrap_or("/");
    if state.dev_token.is_some() {
        return go(&format!("{}{to}", state.base));
    }
    if is_lost(&state, &headers) {
        let sentence = "This address is plain HTTP, over which your browser keeps no session of ours. Open the console at \
                        its own address, which begins with https.";
        return form(&state, StatusCode::BAD_REQUEST, to, Some(("trouble", sentence)));
    }
    let from = from(peer);
    let token = sent.optional("token").unwrap_or_default().trim();
    let (status, sentence) = match state.gate.judge(token).await {
        Presented::Valid(principal) => return opened(&state, (token, &principal, from), to).await,
        Presented::Wrong => match state.gate.wrong(from) {
            None => (
                StatusCode::UNAUTHORIZED,
                "This token is not valid. Check that you copied all of it.".to_owned(),
            ),
            Some(wait_s) => {
                let sentence = format!("Too many wrong tokens were sent. Wait {wait_s} s and try again.");
                (StatusCode::TOO_MANY_REQUESTS, sentence)
            }
        },
        Presented::Expired => {
            (StatusCode::UNAUTHORIZED, "This token has expired: have an admin make another.".to_owned())
        }
        Presented::Revoked => (StatusCode::UNAUTHORIZED, "This token was revoked.".to_owned()),
        Presented::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, AWAY.to_owned()),
    };
    form(&state, status, to, Some(("trouble", &sentence)))
}

const AWAY: &str = "The database does not answer, so signing in is not possible now. Try again in a moment.";

/// Opens a session, and redirects to the page that was requested first.
async fn opened(state: &ConsoleState, who: (&str, &Principal, IpAddr), to: &str) -> Response {
    match state.gate.open_session(who.0, who.1, who.2).await {
        Ok(session) => entrance::with_session(state, go(&format!("{}{to}", state.base)), &session),
        Err(error) => {
            tracing::warn!(%error, "could not open a session");
            form(state, StatusCode::SERVICE_UNAVAILABLE, to, Some(("trouble", AWAY)))
        }
    }
}

/// True when a browser would throw the cookie away: it goes over TLS alone, and the page did not.
fn is_lost(state: &ConsoleState, headers: &HeaderMap) -> bool {
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).unwrap_or_default();
    let is_loopback =
        ["http://127.", "http://localhost", "http://[::1]"].iter().any(|own| origin.starts_with(own));
    state.is_secure && origin.starts_with("http://") && !is_loopback
}

/// Address of the client.
fn from(peer: Option<Extension<Peer>>) -> IpAddr {
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |Extension(peer)| peer.0)
}

pub(crate) async fn ask_out(visit: Visit) -> PageResult {
    let body = html! {
        @if visit.state.dev_token.is_some() {
            p { "With " code { "serve --dev" } " there is no sign-in, so there is no sign-out." }
        } @else {
            p { "You are signed in as " strong { (visit.principal.name.as_str()) } "." }
            form class="act" method="post" action=(visit.link("/sign-out")) {
                div class="buttons" { button class="main" type="submit" { "Sign out here" } }
                p class="hint" { "Ends the session of this browser." }
            }
            form class="act" method="post" action=(visit.link("/sign-out/everywhere")) {
                div class="buttons" { button class="danger" type="submit" { "Sign out everywhere" } }
                p class="hint" {
                    "Ends all sessions of this token, in every browser, within seconds. The token itself stays good."
                }
            }
        }
    };
    Ok(PageBody::new("Sign out", body))
}

pub(crate) async fn sign_out(
    visit: Visit,
    headers: HeaderMap,
    _form: SentForm,
) -> Result<Response, PageError> {
    for session in entrance::sessions_of(&visit.state, &headers) {
        visit.state.gate.end_session(session).await.map_err(|_| still_signed_in())?;
    }
    Ok(signed_out(&visit, entrance::SIGNED_OUT))
}

pub(crate) async fn sign_out_everywhere(
    visit: Visit,
    peer: Option<Extension<Peer>>,
    _form: SentForm,
) -> Result<Response, PageError> {
    let ended = visit.state.gate.end_sessions(&visit.principal, from(peer)).await;
    ended.map_err(|_| still_signed_in())?;
    Ok(signed_out(&visit, entrance::SIGNED_OUT_EVERYWHERE))
}

fn signed_out(visit: &Visit, reason: &str) -> Response {
    let address = entrance::sign_in_address(&visit.state, None, Some(reason));
    entrance::without_session(&visit.state, go(&address))
}

fn still_signed_in() -> PageError {
    let why = "the database does not answer, so that you are still signed in: try again in a moment";
    PageError::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", why)
}
